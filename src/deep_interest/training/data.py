"""The training set on its device; batches are gathered from it."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.io import mapped
from deep_interest.logs.samples import SPLITS, TRAIN
from deep_interest.logs.schema import FeatureSchema
from deep_interest.logs.tables import LOGGED_SLOT
from deep_interest.models.batch import Batch
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values
from deep_interest.training.code_checks import check_samples
from deep_interest.training.feature_store import FeatureStore
from deep_interest.training.history import Histories, HistoryRanges, gather_histories
from deep_interest.training.split_rows import Rows, chosen, rows_of_split
from deep_interest.training.tensors import all_on_host, as_tensor, on_host, within

__all__ = ["FeatureStore", "SampleSet"]


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
        arrived: float32 probability that a click on the sample is known by now; None if all labels are final.
        time: int64 time of the event, if the time since a behaviour is a feature; otherwise None.
        history_begin: int32 number of behaviours of the segment that are too old; None for 0.
        sequences: what each sample sees of each further sequence.
        booster_logits: float32 logits of a model that was trained before, from which a light net learns; None without one.
        slots: int32 slot in which each training sample was shown, from 1; None for other splits, and if the log has no slots.
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
    arrived: Tensor | None = None
    time: Tensor | None = None
    history_begin: Tensor | None = None
    sequences: dict[str, HistoryRanges] = field(default_factory=dict)
    booster_logits: Tensor | None = None
    slots: Tensor | None = None

    @classmethod
    def build(cls, store: FeatureStore, samples: pd.DataFrame, split: str, *, max_len: int) -> "SampleSet":
        """Select the samples of a split, in order.

        Raises:
            InputError: a code is outside the table of its field, or the end of a history is outside the log.
        """
        rows, device = rows_of_split(samples, split), store.offsets.device
        own, fields = ["user", "item", "history_end"], [field.name for field in store.schema.context]
        own += ["segment"] if "segment" in samples else []
        columns = {name: chosen(samples, name, rows) for name in (*own, *fields)}
        check_samples(
            store.schema, columns, offsets=host_values(store.offsets), items=min(map(len, store.items.values())),
            users=min(map(len, store.users.values()), default=None),
            value_sets={name: len(of.offsets) - 1 for name, of in store.value_sets.items()},
        )  # fmt: skip
        tensors = {name: as_tensor(column, device) for name, column in columns.items()}
        labels = as_tensor(chosen(samples, "label", rows).astype(np.float32, copy=False), device)
        context = {name: tensors[name] for name in fields}
        time = (
            as_tensor(chosen(samples, "time", rows).astype(np.int64, copy=False), device)
            if store.needs_time
            else None
        )
        begin, delayed = "history_begin" in samples, "arrived" in samples
        shown = split == SPLITS[TRAIN] and LOGGED_SLOT in samples
        found = cls(
            store, max_len, tensors["user"], tensors["item"], tensors["history_end"], labels, context,
            given_segment=tensors.get("segment"), weights=_weights(samples, rows, device), time=time,
            history_begin=as_tensor(chosen(samples, "history_begin", rows), device) if begin else None,
            slots=as_tensor(chosen(samples, LOGGED_SLOT, rows), device) if shown else None,
            arrived=as_tensor(chosen(samples, "arrived", rows).astype(np.float32, copy=False), device) if delayed else None,
        )  # fmt: skip
        return (
            replace(found, sequences=_ranges_of_sequences(found, samples, rows)) if store.sequences else found
        )

    def __len__(self) -> int:
        return len(self.labels)

    def batch(
        self, rows: Tensor, *, negatives: Collection[str] = (), histories: Histories | None = None
    ) -> Batch:
        """Gather the samples ``rows (B,)`` and their histories, which are slices of the log.

        Consecutive samples with the same history share it. The host computes the slices and their total length, so that
        nothing waits for the device. With multi-hot fields the host gathers the whole batch and copies it to the device,
        because it needs the numbers of values.

        Args:
            rows: indices of the samples, on the CPU.
            negatives: fields of the negatives to sample for each behaviour, from torch's random state (with multi-hot fields,
                that of the CPU); empty for no negatives.
            histories: histories of the samples, on the device of the store (with multi-hot fields, on the CPU); those before
                each sample if None.
        """
        if self.store.value_sets:
            batch = self.on_host._gathered(rows, negatives, histories)
            return batch.to_device(self.labels.device, self.store.value_sets)
        return self._gathered(rows, negatives, histories)

    def _gathered(self, rows: Tensor, negatives: Collection[str], histories: Histories | None) -> Batch:
        store, schema, device = self.store, self.store.schema, self.labels.device
        if histories is None:
            histories = gather_histories(store.log, self._ranges, schema.behavior, rows)
        sequences = {
            name: gather_histories(
                store.sequences[name], self.sequences[name], schema.sequences[name].behavior, rows
            )
            for name in store.sequences
        }
        rows = copy_to_device(rows.numpy(), device)
        item = self.item.index_select(0, rows)
        user = self.user.index_select(0, rows) if schema.profile else rows
        shared = {name: histories.codes[name] for name in negatives}
        batch = Batch(
            candidate={field.name: store.items[field.name].index_select(0, item) for field in schema.item},
            history=histories.codes,
            offsets=histories.offsets,
            profile={field.name: store.users[field.name].index_select(0, user) for field in schema.profile},
            context={field.name: codes.index_select(0, rows) for field, codes in self._context()},
            labels=self.labels.index_select(0, rows),
            negatives=store.sample_negatives(shared, shown=histories.negatives) if negatives else None,
            owner=histories.owner,
            value_sets=store.value_sets,
            weights=None if self.weights is None else self.weights.index_select(0, rows),
            arrived=None if self.arrived is None else self.arrived.index_select(0, rows),
            booster_logits=None if self.booster_logits is None else self.booster_logits.index_select(0, rows),
            slots=None if self.slots is None else self.slots.index_select(0, rows),
        )
        for name, of in sequences.items():
            batch.sequences[name] = replace(
                batch, history=of.codes, offsets=of.offsets, owner=of.owner, negatives=None, sequences={}
            )
        return batch

    @property
    def segment(self) -> Tensor:
        """``(n,)`` segment of the log that has the history of each sample."""
        return self.user if self.given_segment is None else self.given_segment

    @cached_property
    def _ranges(self) -> HistoryRanges:
        time = self.time if self.store.times is not None else None
        return HistoryRanges(self.segment, self.history_end, self.history_begin, time, self.max_len)

    @cached_property
    def on_host(self) -> "SampleSet":
        """A copy on the CPU, or the samples themselves if they are there already."""
        if self.labels.device.type == "cpu":
            return self
        return replace(
            self, store=self.store.on_host, user=on_host(self.user), item=on_host(self.item),
            history_end=on_host(self.history_end), labels=on_host(self.labels), context=all_on_host(self.context),
            given_segment=None if self.given_segment is None else on_host(self.given_segment),
            weights=None if self.weights is None else on_host(self.weights),
            arrived=None if self.arrived is None else on_host(self.arrived),
            time=None if self.time is None else on_host(self.time),
            history_begin=None if self.history_begin is None else on_host(self.history_begin),
            sequences={name: ranges.on_host for name, ranges in self.sequences.items()},
            booster_logits=None if self.booster_logits is None else on_host(self.booster_logits),
            slots=None if self.slots is None else on_host(self.slots),
        )  # fmt: skip

    @property
    def requests(self) -> Tensor:
        """``(n,)`` request of each sample, on the CPU: samples with the same user and history belong to one request."""
        return self.requests_of(0, len(self))

    def requests_of(self, begin: int, end: int) -> Tensor:
        """Return the request of each of the samples ``[begin, end)``, on the CPU, numbered from 0."""
        segment, history_end = (on_host(values)[begin:end] for values in (self.segment, self.history_end))
        history = torch.unique(segment.long() << 32 | history_end.long(), return_inverse=True)[1]
        if self.given_segment is None:
            return history
        return torch.unique(on_host(self.user)[begin:end].long() << 32 | history, return_inverse=True)[1]

    def part(self, begin: int, end: int) -> "SampleSet":
        """Return the samples ``[begin, end)``; they share the memory of all."""
        rows = slice(begin, end)

        def of(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[rows]

        return replace(
            self, user=self.user[rows], item=self.item[rows], history_end=self.history_end[rows], labels=self.labels[rows],
            context={name: codes[rows] for name, codes in self.context.items()}, given_segment=of(self.given_segment),
            weights=of(self.weights), arrived=of(self.arrived), time=of(self.time), history_begin=of(self.history_begin),
            booster_logits=of(self.booster_logits), slots=of(self.slots),
            sequences={name: ranges.part(rows) for name, ranges in self.sequences.items()},
        )  # fmt: skip

    def read_ahead(self, begin: int, end: int) -> None:
        """Read the samples ``[begin, end)`` and their part of the log, if they are mapped into memory."""
        for array, first, last in self._mapped_parts(begin, end):
            mapped.read_ahead(array, first, last)

    def drop(self, begin: int, end: int) -> None:
        """Remove the samples ``[begin, end)`` and their part of the log from memory, if they are mapped from files."""
        for array, first, last in self._mapped_parts(begin, end):
            mapped.drop(array, first, last)

    def _mapped_parts(self, begin: int, end: int) -> list[tuple[np.ndarray, int, int]]:
        """Return the arrays of samples and log, and their rows that the samples ``[begin, end)`` need.

        The log is left out where neighbouring samples have histories all over it.
        """
        parts = [(column, begin, end) for column in self._columns()]
        segment, offsets = host_values(self.segment)[begin:end], host_values(self.store.offsets)
        if len(segment):
            first, last = int(offsets[segment.min()]), int(offsets[segment.max() + 1])
            if last - first <= offsets[-1] // 2:
                parts += [(host_values(codes), first, last) for codes in self.store.history.values()]
        return parts

    def _columns(self) -> list[np.ndarray]:
        tensors = [self.user, self.item, self.history_end, self.labels, *self.context.values()]
        tensors += [
            each
            for each in (self.given_segment, self.time, self.history_begin, self.slots)
            if each is not None
        ]
        return [host_values(tensor) for tensor in tensors]

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
            self.store, schema=schema, items=known(self.store.items), users=known(self.store.users),
            log=replace(self.store.log, fields=known(self.store.history)),
            sequences={name: replace(log, fields=known(log.fields)) for name, log in self.store.sequences.items()},
            value_sets={name: within(value_sets, sizes[name]) for name, value_sets in self.store.value_sets.items()},
        )  # fmt: skip
        return replace(self, store=store, context=known(self.context))

    def candidates(self) -> dict[str, Tensor]:
        """Return ``{field: (n,)}`` codes of the candidate of each sample."""
        return {field.name: self.store.items[field.name][self.item] for field in self.store.schema.item}

    def _context(self):
        return [(field, self.context[field.name]) for field in self.store.schema.context]


def _ranges_of_sequences(found: SampleSet, samples: pd.DataFrame, rows: Rows) -> dict[str, HistoryRanges]:
    """Return what some samples see of each further sequence of behaviours."""
    store, device, ranges = found.store, found.labels.device, {}
    for name, log in store.sequences.items():
        end, begin = (
            as_tensor(chosen(samples, f"history_{which}.{name}", rows), device) for which in ("end", "begin")
        )
        max_len = store.schema.sequences[name].max_len or found.max_len
        time = found.time if log.times is not None else None
        ranges[name] = HistoryRanges(found.user, end, begin, time, max_len)
    return ranges


def _weights(samples: pd.DataFrame, rows: Rows, device: torch.device) -> Tensor | None:
    """Return the weights of some samples, divided by their mean, so that the learning rate and penalties keep their meaning."""
    weights = chosen(samples, "weight", rows).astype(np.float64) if "weight" in samples else np.empty(0)
    if not len(weights):
        return None
    if not weights.any():
        raise InputError(
            "weight: every sample has a weight of 0; check the column that source.impressions.weight names"
        )
    return as_tensor((weights / weights.mean()).astype(np.float32), device)
