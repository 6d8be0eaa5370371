"""The training set on its device; batches are gathered from it."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ValueSetLookup
from deep_interest.ops.histories import gather_slices, history_slices
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values, with_host_copy
from deep_interest.training.code_checks import check_log, check_samples
from deep_interest.training.derived_fields import derived_codes

_MAX_REDRAWS = 10  # of a negative that equals the clicked item


@dataclass(frozen=True)
class FeatureStore:
    """Log and feature codes on one device, shared by all splits.

    Attributes:
        schema: feature groups.
        offsets: ``(S + 1,)`` int64 segments of the behaviours: one for each user, or for each given history.
        history: ``{field: (N,)}`` int32 codes of all behaviours.
        items: ``{field: (I + 1,)}`` int32, by item code.
        users: ``{field: (U + 1,)}`` int32, by user code.
        value_sets: ``{field: ValueSetLookup}`` of multi-hot fields.
        times: ``(N,)`` int64 time of each behaviour, if a field is the time since; otherwise None.
    """

    schema: FeatureSchema
    offsets: Tensor
    history: dict[str, Tensor]
    items: dict[str, Tensor]
    users: dict[str, Tensor]
    value_sets: dict[str, ValueSetLookup] = field(default_factory=dict)
    times: Tensor | None = None

    @classmethod
    def build(cls, log: BehaviorLog, features: FeatureTables, device: torch.device) -> "FeatureStore":
        """Move the log and the feature codes to the device.

        Raises:
            InputError: a code is outside its field's table.
        """
        check_log(log, features)
        return cls(
            features.schema, _tensor(log.offsets, device), _tensors(log.fields, device),
            _tensors(features.items, device), _tensors(features.users, device),
            {name: _value_set_lookup(value_sets, device) for name, value_sets in features.value_sets.items()},
            None if log.times is None else _tensor(log.times, device),
        )  # fmt: skip

    @cached_property
    def on_host(self) -> "FeatureStore":
        """A copy on the CPU, or the store itself if it is there already."""
        if self.offsets.device.type == "cpu":
            return self
        value_sets = {
            name: ValueSetLookup(_on_host(of.offsets), _on_host(of.values))
            for name, of in self.value_sets.items()
        }
        return replace(
            self, offsets=_on_host(self.offsets), history=_all_on_host(self.history), items=_all_on_host(self.items),
            users=_all_on_host(self.users), value_sets=value_sets, times=None if self.times is None else _on_host(self.times),
        )  # fmt: skip

    def now(self, count: int, time: int | None = None) -> Tensor | None:
        """Return the time of samples that are scored now, ``(count,)``, or None if no field needs it.

        Args:
            count: number of samples.
            time: time in the unit of the log; one unit after the newest behaviour of the log if None.
        """
        if self.times is None:
            return None
        newest = int(self.times.max()) if len(self.times) else 0
        return torch.full(
            (count,), newest + 1 if time is None else time, dtype=torch.int64, device=self.times.device
        )

    @cached_property
    def _known_items(self) -> tuple[Tensor, Tensor]:
        """Codes of all items with their own item-id code, and the index of each item-id code among them."""
        item_ids = self.items[ITEM_ID]
        items = (item_ids > 0).nonzero().squeeze(1)
        index = torch.zeros(int(item_ids.max()) + 1, dtype=torch.int64, device=item_ids.device)
        index[item_ids[items].long()] = torch.arange(len(items), device=item_ids.device)
        return items, index

    def sample_negatives(self, history: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sample a negative for each behaviour, uniformly from all items except the clicked one (DIEN eq. 7).

        Without item ids, a negative has to differ in at least one field; it is drawn again up to ten times.

        Args:
            history: ``{field: (N,)}`` codes of behaviours.

        Returns:
            ``{field: (N,)}`` codes of the negatives.

        Raises:
            InputError: there is only one item.
        """
        if ITEM_ID not in history:
            return self._sample_by_fields(history)
        items, index = self._known_items
        if len(items) < 2:
            raise InputError(
                "items: found one item, but the auxiliary loss needs at least two to sample negatives"
            )
        clicked = history[ITEM_ID].long()
        sampled = torch.randint(len(items) - 1, clicked.shape, device=clicked.device)
        sampled += (sampled >= index[clicked]) & (clicked > 0)
        return {name: self.items[name][items[sampled]] for name in history}

    def _sample_by_fields(self, history: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sample negatives that differ in a field; item code 0, the unknown item, is never sampled."""
        first = next(iter(history.values()))
        items = len(self.items[next(iter(history))])
        sampled = torch.randint(1, items, first.shape, device=first.device)
        for _ in range(_MAX_REDRAWS):
            equal = torch.stack([self.items[name][sampled] == codes for name, codes in history.items()]).all(
                0
            )
            redrawn = torch.randint(1, items, first.shape, device=first.device)
            sampled = torch.where(equal, redrawn, sampled)
        return {name: self.items[name][sampled] for name in history}


@dataclass(frozen=True)
class SampleSet:
    """The samples of one split on the device of the store; all tensors have shape ``(n,)``.

    Attributes:
        store: log and feature codes.
        max_len: maximum length of a history.
        user, item: int32 codes.
        history_end: int32 number of behaviours of the segment before the event.
        labels: float32.
        context: ``{field: int32 codes}``.
        given_segment: int32 segment of the log that has the history, if the source gives it; None if it is that of the user.
        weights: float32 weights in the training loss, with a mean of 1; None if all are equal.
        time: int64 time of the event, if the time since a behaviour is a feature; otherwise None.
    """

    store: FeatureStore
    max_len: int
    user: Tensor
    item: Tensor
    history_end: Tensor
    labels: Tensor
    context: dict[str, Tensor]
    given_segment: Tensor | None = None
    weights: Tensor | None = None
    time: Tensor | None = None

    @classmethod
    def build(cls, store: FeatureStore, samples: pd.DataFrame, split: str, *, max_len: int) -> "SampleSet":
        """Select the samples of a split, in order.

        Raises:
            InputError: a code is outside the table of its field, or the end of a history is outside the log.
        """
        rows, device = np.flatnonzero((samples["split"] == split).to_numpy()), store.offsets.device
        own, fields = ["user", "item", "history_end"], [field.name for field in store.schema.context]
        own += ["segment"] if "segment" in samples else []
        columns = {name: samples[name].to_numpy()[rows] for name in (*own, *fields)}
        check_samples(
            store.schema, columns, offsets=host_values(store.offsets), items=min(map(len, store.items.values())),
            users=min(map(len, store.users.values()), default=None),
            value_sets={name: len(of.offsets) - 1 for name, of in store.value_sets.items()},
        )  # fmt: skip
        tensors = {name: _tensor(column, device) for name, column in columns.items()}
        labels = _tensor(samples["label"].to_numpy()[rows].astype(np.float32), device)
        context = {name: tensors[name] for name in fields}
        time = (
            None
            if store.times is None
            else _tensor(samples["time"].to_numpy()[rows].astype(np.int64), device)
        )
        return cls(
            store, max_len, tensors["user"], tensors["item"], tensors["history_end"], labels, context,
            given_segment=tensors.get("segment"), weights=_weights(samples, rows, device), time=time,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Tensor, *, negatives: Collection[str] = ()) -> Batch:
        """Gather the samples ``rows (B,)`` and their histories, which are slices of the log.

        Consecutive samples with the same history share it. The host computes the slices and their total length, so that
        nothing waits for the device. With multi-hot fields the host gathers the whole batch and copies it to the device,
        because it needs the numbers of values.

        Args:
            rows: indices of the samples, on the CPU.
            negatives: fields of the negatives to sample for each behaviour, from torch's random state (with multi-hot fields,
                that of the CPU); empty for no negatives.
        """
        if self.store.value_sets:
            batch = self.on_host._gathered(rows, negatives)
            return batch.to_device(self.labels.device, self.store.value_sets)
        return self._gathered(rows, negatives)

    def _gathered(self, rows: Tensor, negatives: Collection[str]) -> Batch:
        store, device = self.store, self.labels.device
        slices = history_slices(rows, *self._history_arrays, max_len=self.max_len, times=self._host_time)
        starts, offsets, rows = (
            copy_to_device(array, device) for array in (slices.starts, slices.offsets, rows.numpy())
        )
        history = self._histories(starts, Jagged(offsets), slices.owner, rows)
        item, schema = self.item.index_select(0, rows), store.schema
        user = self.user.index_select(0, rows) if schema.profile else rows
        return Batch(
            candidate={field.name: store.items[field.name].index_select(0, item) for field in schema.item},
            history=history,
            offsets=offsets,
            profile={field.name: store.users[field.name].index_select(0, user) for field in schema.profile},
            context={field.name: codes.index_select(0, rows) for field, codes in self._context()},
            labels=self.labels.index_select(0, rows),
            negatives=store.sample_negatives({name: history[name] for name in negatives})
            if negatives
            else None,
            owner=None if slices.owner is None else copy_to_device(slices.owner, device),
            value_sets=store.value_sets,
        )

    @property
    def segment(self) -> Tensor:
        """``(n,)`` segment of the log that has the history of each sample."""
        return self.user if self.given_segment is None else self.given_segment

    def _histories(
        self, starts: Tensor, histories: Jagged, owner: np.ndarray | None, rows: Tensor
    ) -> dict[str, Tensor]:
        """Gather the codes of the behaviours ``{field: (N,)}`` of the slices of some samples ``rows (B,)``."""
        store = self.store
        fields = {
            field.name: store.history[field.name] for field in store.schema.behavior if not field.derived
        }
        history = gather_slices(fields, starts, histories)
        derived = store.schema.derived
        if not derived:
            return history
        times = now = None
        if store.times is not None and self.time is not None:
            times = gather_slices({"": store.times}, starts, histories)[""]
            first = (
                rows
                if owner is None
                else rows[copy_to_device(np.flatnonzero(np.diff(owner, prepend=-1)), rows.device)]
            )
            now = self.time.index_select(0, first)
        history |= derived_codes(derived, histories, times, now)
        return {field.name: history[field.name] for field in store.schema.behavior}

    @cached_property
    def _history_arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        """Segments and history ends of the samples, and the offsets of the log, on the CPU."""
        return _on_host(self.segment), _on_host(self.history_end), _on_host(self.store.offsets)

    @cached_property
    def _host_time(self) -> Tensor | None:
        return None if self.time is None else _on_host(self.time)

    @cached_property
    def on_host(self) -> "SampleSet":
        """A copy on the CPU, or the samples themselves if they are there already."""
        if self.labels.device.type == "cpu":
            return self
        return replace(
            self, store=self.store.on_host, user=_on_host(self.user), item=_on_host(self.item),
            history_end=_on_host(self.history_end), labels=_on_host(self.labels), context=_all_on_host(self.context),
            given_segment=None if self.given_segment is None else _on_host(self.given_segment),
            weights=None if self.weights is None else _on_host(self.weights),
            time=None if self.time is None else _on_host(self.time),
        )  # fmt: skip

    @cached_property
    def requests(self) -> Tensor:
        """``(n,)`` request of each sample, on the CPU: samples with the same user and history belong to one request."""
        segment, history_end, _ = self._history_arrays
        history = torch.unique(segment.long() << 32 | history_end.long(), return_inverse=True)[1]
        if self.given_segment is None:
            return history
        return torch.unique(_on_host(self.user).long() << 32 | history, return_inverse=True)[1]

    def with_vocabularies_of(self, schema: FeatureSchema) -> "SampleSet":
        """Return the samples with the vocabularies of an earlier schema: values that it lacks become unknown.

        Args:
            schema: schema with the same fields and vocabularies of at most the same sizes.

        Raises:
            InputError: the fields differ.
        """
        sizes, ours = schema.tables, self.store.schema.tables
        if set(sizes) != set(ours):
            raise InputError(
                f"features: the model has the fields {', '.join(sizes)}, the configuration {', '.join(ours)}; restore the "
                "configured features, or start a new registry"
            )

        def known(codes: dict[str, Tensor]) -> dict[str, Tensor]:
            return {
                name: values
                if name in self.store.value_sets or sizes.get(name) == ours.get(name)
                else values * (values < sizes[name])
                for name, values in codes.items()
            }

        store = replace(
            self.store, schema=schema, history=known(self.store.history), items=known(self.store.items),
            users=known(self.store.users),
            value_sets={name: _within(value_sets, sizes[name]) for name, value_sets in self.store.value_sets.items()},
        )  # fmt: skip
        return replace(self, store=store, context=known(self.context))

    def candidates(self) -> dict[str, Tensor]:
        """Return ``{field: (n,)}`` codes of the candidate of each sample."""
        return {field.name: self.store.items[field.name][self.item] for field in self.store.schema.item}

    def _context(self):
        return [(field, self.context[field.name]) for field in self.store.schema.context]


def _weights(samples: pd.DataFrame, rows: np.ndarray, device: torch.device) -> Tensor | None:
    """Return the weights of some samples, divided by their mean, so that the learning rate and penalties keep their meaning."""
    if "weight" not in samples or not len(rows):
        return None
    weights = samples["weight"].to_numpy(np.float64)[rows]
    if not weights.any():
        raise InputError(
            "weight: every sample has a weight of 0; check the column that source.impressions.weight names"
        )
    return _tensor((weights / weights.mean()).astype(np.float32), device)


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """Convert to a tensor; on a CPU it shares the memory of the array, so that processes share a memory-mapped log."""
    array = np.ascontiguousarray(array)
    return with_host_copy(torch.from_numpy(array).to(device), array)


def _on_host(tensor: Tensor) -> Tensor:
    """Return the host copy of a tensor."""
    return torch.from_numpy(host_values(tensor))


def _all_on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: _on_host(tensor) for name, tensor in tensors.items()}


def _value_set_lookup(value_sets: ValueSets, device: torch.device) -> ValueSetLookup:
    return ValueSetLookup(_tensor(value_sets.offsets, device), _tensor(value_sets.values, device))


def _within(value_sets: ValueSetLookup, size: int) -> ValueSetLookup:
    """Restrict value sets to the codes below ``size``."""
    arrays = ValueSets(host_values(value_sets.offsets), host_values(value_sets.values))
    return _value_set_lookup(arrays.within(size), value_sets.values.device)


def _tensors(arrays: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    return {name: _tensor(array, device) for name, array in arrays.items()}
