"""Logs and feature codes on a device, shared by all splits."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import ValueSetLookup
from deep_interest.training.code_checks import check_log
from deep_interest.training.history import LogTensors
from deep_interest.training.tensors import all_on_host, as_tensors, on_host, value_set_lookup

_MAX_REDRAWS = 10  # of a negative that equals the clicked item


@dataclass(frozen=True)
class FeatureStore:
    """Log and feature codes on one device, shared by all splits.

    Attributes:
        schema: feature groups.
        log: the behaviours.
        items: ``{field: (I + 1,)}`` int32, by item code.
        users: ``{field: (U + 1,)}`` int32, by user code.
        value_sets: ``{field: ValueSetLookup}`` of multi-hot fields.
        sequences: the behaviours of each further sequence.
    """

    schema: FeatureSchema
    log: LogTensors
    items: dict[str, Tensor]
    users: dict[str, Tensor]
    value_sets: dict[str, ValueSetLookup] = field(default_factory=dict)
    sequences: dict[str, LogTensors] = field(default_factory=dict)

    @classmethod
    def build(cls, log: BehaviorLog, features: FeatureTables, device: torch.device) -> "FeatureStore":
        """Move the log and the feature codes to the device.

        Raises:
            InputError: a code is outside its field's table.
        """
        check_log(log, features)
        return cls(
            features.schema, LogTensors.build(log, device),
            as_tensors(features.items, device), as_tensors(features.users, device),
            {name: value_set_lookup(value_sets, device) for name, value_sets in features.value_sets.items()},
            {name: LogTensors.build(sequence, device) for name, sequence in log.sequences.items()},
        )  # fmt: skip

    @property
    def offsets(self) -> Tensor:
        """``(S + 1,)`` int64 segments of the behaviours: one for each user, or for each given history."""
        return self.log.offsets

    @property
    def history(self) -> dict[str, Tensor]:
        """``{field: (N,)}`` int32 codes of all behaviours."""
        return self.log.fields

    @property
    def times(self) -> Tensor | None:
        """``(N,)`` int64 time of each behaviour, if the time since a behaviour is a field; otherwise None."""
        return self.log.times

    @property
    def needs_time(self) -> bool:
        """Whether the time of a sample determines codes of its histories."""
        return any(log.times is not None for log in (self.log, *self.sequences.values()))

    @cached_property
    def on_host(self) -> "FeatureStore":
        """A copy on the CPU, or the store itself if it is there already."""
        if self.offsets.device.type == "cpu":
            return self
        value_sets = {
            name: ValueSetLookup(on_host(of.offsets), on_host(of.values))
            for name, of in self.value_sets.items()
        }
        return replace(
            self, log=self.log.on_host, items=all_on_host(self.items), users=all_on_host(self.users), value_sets=value_sets,
            sequences={name: log.on_host for name, log in self.sequences.items()},
        )  # fmt: skip

    def now(self, count: int, time: int | None = None) -> Tensor | None:
        """Return the time of samples that are scored now, ``(count,)``, or None if no field needs it.

        Args:
            count: number of samples.
            time: time in the unit of the log; one unit after the newest behaviour of the log if None.
        """
        times = [log.times for log in (self.log, *self.sequences.values()) if log.times is not None]
        if not times:
            return None
        newest = max((int(of.max()) for of in times if len(of)), default=0)
        return torch.full(
            (count,), newest + 1 if time is None else time, dtype=torch.int64, device=self.offsets.device
        )

    @cached_property
    def _known_items(self) -> tuple[Tensor, Tensor]:
        """Codes of all items with their own item-id code, and the index of each item-id code among them."""
        item_ids = self.items[ITEM_ID]
        items = (item_ids > 0).nonzero().squeeze(1)
        index = torch.zeros(int(item_ids.max()) + 1, dtype=torch.int64, device=item_ids.device)
        index[item_ids[items].long()] = torch.arange(len(items), device=item_ids.device)
        return items, index

    def sample_negatives(
        self, history: dict[str, Tensor], *, shown: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Sample a negative for each behaviour, uniformly from all items except the clicked one (DIEN eq. 7).

        Without item ids, a negative has to differ in at least one field; it is drawn again up to ten times.

        Args:
            history: ``{field: (N,)}`` codes of behaviours.
            shown: ``(N,)`` item code of an item that was shown and not clicked, which is the negative; a negative is sampled
                where it is 0. None to sample all of them.

        Returns:
            ``{field: (N,)}`` codes of the negatives.

        Raises:
            InputError: there is only one item.
        """
        sampled = self._sample(history)
        if shown is None:
            return sampled
        return {
            name: torch.where(shown > 0, self.items[name][shown.long()], codes)
            for name, codes in sampled.items()
        }

    def _sample(self, history: dict[str, Tensor]) -> dict[str, Tensor]:
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
