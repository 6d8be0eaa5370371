"""The training set on its device, and batches as one gather from it."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import GOODS, FeatureTables
from deep_interest.logs.multi_hot import Cells
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, CellValues
from deep_interest.ops.histories import gather_slices, history_slices
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values, with_host_copy
from deep_interest.training.code_checks import check_log, check_samples

_REDRAWS = 10  # of an item that is like the one clicked


@dataclass(frozen=True)
class FeatureStore:
    """The log and the feature codes, resident on one device; shared by the splits.

    Attributes:
        schema: the feature groups.
        offsets: ``(U + 1,)`` int64 runs of the users' behaviours.
        history: ``{field: (N,)}`` int32, of every behaviour.
        items: ``{field: (I + 1,)}`` int32, by item code.
        users: ``{field: (U + 1,)}`` int32, by user code.
        cells: ``{field: the values of its cells}`` of multi-hot fields.
    """

    schema: FeatureSchema
    offsets: Tensor
    history: dict[str, Tensor]
    items: dict[str, Tensor]
    users: dict[str, Tensor]
    cells: dict[str, CellValues] = field(default_factory=dict)

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
            {name: _cell_values(cells, device) for name, cells in features.cells.items()},
        )  # fmt: skip

    @cached_property
    def on_host(self) -> "FeatureStore":
        """The same on the CPU."""
        if self.offsets.device.type == "cpu":
            return self
        groups = {name: _all_here(getattr(self, name)) for name in ("history", "items", "users")}
        cells = {name: CellValues(_here(of.offsets), _here(of.values)) for name, of in self.cells.items()}
        return replace(self, offsets=_here(self.offsets), cells=cells, **groups)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """Item codes that have a goods code of their own, and each goods code's place among them."""
        goods = self.items[GOODS]
        items = (goods > 0).nonzero().squeeze(1)
        place = torch.zeros(int(goods.max()) + 1, dtype=torch.int64, device=goods.device)
        place[goods[items].long()] = torch.arange(len(items), device=goods.device)
        return items, place

    def draw_beside(self, history: dict[str, Tensor]) -> dict[str, Tensor]:
        """Beside each behaviour an item drawn uniformly from all others than the one clicked (DIEN eq. 7).

        Without goods, another item is one that differs in a field; it is drawn again until it does, ten times at most.

        Args:
            history: ``{field: (N,)}`` codes of behaviours.

        Returns:
            ``{field: (N,)}`` codes of the drawn items.

        Raises:
            InputError: there is one item only.
        """
        if GOODS not in history:
            return self._draw_unlike(history)
        items, place = self._known
        if len(items) < 2:
            raise InputError(
                "items: found one item, expected two or more for the auxiliary loss to draw from"
            )
        clicked = history[GOODS].long()
        drawn = torch.randint(len(items) - 1, clicked.shape, device=clicked.device)
        drawn += (drawn >= place[clicked]) & (clicked > 0)
        return {name: self.items[name][items[drawn]] for name in history}

    def _draw_unlike(self, history: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same by the fields that there are; item code 0 is no item."""
        first = next(iter(history.values()))
        items = len(self.items[next(iter(history))])
        drawn = torch.randint(1, items, first.shape, device=first.device)
        for _ in range(_REDRAWS):
            alike = torch.stack([self.items[name][drawn] == codes for name, codes in history.items()]).all(0)
            again = torch.randint(1, items, first.shape, device=first.device)
            drawn = torch.where(alike, again, drawn)
        return {name: self.items[name][drawn] for name in history}


@dataclass(frozen=True)
class SampleSet:
    """The samples of one split, resident on the store's device; all tensors ``(n,)``.

    Attributes:
        store: log and feature codes.
        max_len: behaviours in a history.
        user, item: int32 codes.
        history_end: int32, how many of the user's behaviours lie before the event.
        labels: float32.
        context: ``{field: int32 codes}``.
    """

    store: FeatureStore
    max_len: int
    user: Tensor
    item: Tensor
    history_end: Tensor
    labels: Tensor
    context: dict[str, Tensor]

    @classmethod
    def build(cls, store: FeatureStore, samples: pd.DataFrame, split: str, *, max_len: int) -> "SampleSet":
        """Take the rows of a split, in their order.

        Raises:
            InputError: a code of a sample is outside its field's table, or the end of its history outside the log.
        """
        rows, device = np.flatnonzero((samples["split"] == split).to_numpy()), store.offsets.device
        own, fields = ("user", "item", "history_end"), [field.name for field in store.schema.context]
        columns = {name: samples[name].to_numpy()[rows] for name in (*own, *fields)}
        check_samples(
            store.schema, columns, offsets=host_values(store.offsets), items=min(map(len, store.items.values())),
            users=min(map(len, store.users.values()), default=len(store.offsets)),
            cells={name: len(of.offsets) - 1 for name, of in store.cells.items()},
        )  # fmt: skip
        tensors = {name: _tensor(column, device) for name, column in columns.items()}
        labels = _tensor(samples["label"].to_numpy()[rows].astype(np.float32), device)
        context = {name: tensors[name] for name in fields}
        return cls(store, max_len, **{name: tensors[name] for name in own}, labels=labels, context=context)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Tensor, *, negatives: Collection[str] = ()) -> Batch:
        """Gather the samples ``rows (B,)`` and the windows of the log that are their histories.

        Neighbours in ``rows`` that have the same history share it. The host says which slices of the log these are, and so how
        large they are together: nothing waits for the device. With multi-hot fields the host gathers the batch and sends it,
        since it wants to know how many values they have.

        Args:
            rows: numbers of samples, on the CPU.
            negatives: draw an item beside each behaviour, from torch's random state (with multi-hot fields the CPU's), with
                these fields of it.
        """
        if self.store.cells:
            batch = self.on_host._gathered(rows, negatives)
            return batch.sent_to(self.labels.device, self.store.cells)
        return self._gathered(rows, negatives)

    def _gathered(self, rows: Tensor, negatives: Collection[str]) -> Batch:
        store, device = self.store, self.labels.device
        slices = history_slices(rows, *self._whose, max_len=self.max_len)
        starts, offsets, rows = (
            copy_to_device(array, device) for array in (slices.starts, slices.offsets, rows.numpy())
        )
        fields = {field.name: store.history[field.name] for field in store.schema.behavior}
        history = gather_slices(fields, starts, Jagged(offsets))
        item, schema = self.item.index_select(0, rows), store.schema
        user = self.user.index_select(0, rows) if schema.profile else rows
        return Batch(
            candidate={field.name: store.items[field.name].index_select(0, item) for field in schema.item},
            history=history,
            offsets=offsets,
            profile={field.name: store.users[field.name].index_select(0, user) for field in schema.profile},
            context={field.name: codes.index_select(0, rows) for field, codes in self._context()},
            labels=self.labels.index_select(0, rows),
            negatives=store.draw_beside({name: history[name] for name in negatives}) if negatives else None,
            owner=None if slices.owner is None else copy_to_device(slices.owner, device),
            cells=store.cells,
        )

    @cached_property
    def _whose(self) -> tuple[Tensor, Tensor, Tensor]:
        """User and history end of the samples, and the users' runs in the log, on the CPU."""
        return _here(self.user), _here(self.history_end), _here(self.store.offsets)

    @cached_property
    def on_host(self) -> "SampleSet":
        """The same on the CPU."""
        if self.labels.device.type == "cpu":
            return self
        columns = {name: _here(getattr(self, name)) for name in ("user", "item", "history_end", "labels")}
        return replace(self, store=self.store.on_host, context=_all_here(self.context), **columns)

    @cached_property
    def requests(self) -> Tensor:
        """``(n,)`` a number for each sample, the same for those of one user and one history; on the CPU."""
        user, history_end, _ = self._whose
        history = user.long() << 32 | history_end.long()
        return torch.unique(history, return_inverse=True)[1]

    def as_known_to(self, schema: FeatureSchema) -> "SampleSet":
        """The samples as a model of an earlier schema sees them: values that it does not know are "unknown".

        Args:
            schema: of the same fields, whose vocabularies may have been smaller.

        Raises:
            InputError: the fields are others.
        """
        sizes, ours = schema.tables, self.store.schema.tables
        if set(sizes) != set(ours):
            raise InputError(
                f"features: the model has the fields {', '.join(sizes)}, the configuration {', '.join(ours)}; restore the "
                "configured features, or begin a registry anew"
            )

        def known(codes: dict[str, Tensor]) -> dict[str, Tensor]:
            return {
                name: values
                if name in self.store.cells or sizes.get(name) == ours.get(name)
                else values * (values < sizes[name])
                for name, values in codes.items()
            }

        store = replace(
            self.store, schema=schema, history=known(self.store.history), items=known(self.store.items),
            users=known(self.store.users),
            cells={name: _within(cells, sizes[name]) for name, cells in self.store.cells.items()},
        )  # fmt: skip
        return replace(self, store=store, context=known(self.context))

    def candidates(self) -> dict[str, Tensor]:
        """``{field: (n,)}`` codes of every sample's candidate."""
        return {field.name: self.store.items[field.name][self.item] for field in self.store.schema.item}

    def _context(self):
        return [(field, self.context[field.name]) for field in self.store.schema.context]


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """The array's own memory on a CPU: a mapped log is read where it lies, by all processes together."""
    array = np.ascontiguousarray(array)
    return with_host_copy(torch.from_numpy(array).to(device), array)


def _here(tensor: Tensor) -> Tensor:
    """What the host remembers of a tensor, or else a copy."""
    return torch.from_numpy(host_values(tensor))


def _all_here(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: _here(tensor) for name, tensor in tensors.items()}


def _cell_values(cells: Cells, device: torch.device) -> CellValues:
    return CellValues(_tensor(cells.offsets, device), _tensor(cells.values, device))


def _within(cells: CellValues, size: int) -> CellValues:
    """The cells as a vocabulary of ``size`` codes knows them."""
    arrays = Cells(host_values(cells.offsets), host_values(cells.values))
    return _cell_values(arrays.within(size), cells.values.device)


def _tensors(arrays: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    return {name: _tensor(array, device) for name, array in arrays.items()}
