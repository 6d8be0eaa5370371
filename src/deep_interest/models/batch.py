"""Batch: what a model is given. Histories are jagged; there is no padding."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.schema import Group
from deep_interest.ops.bounds import check_codes, check_offsets
from deep_interest.ops.histories import gather_slices
from deep_interest.ops.jagged import Jagged, SharedSegments, share_segments
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values


class CellValues(NamedTuple):
    """The values of a multi-hot field's cells.

    Attributes:
        offsets: ``(C + 1,)`` int64; the values of cell c are ``[offsets[c], offsets[c + 1])``.
        values: ``(M,)`` int32 codes.
    """

    offsets: Tensor
    values: Tensor

    def of(self, cells: Tensor, field: str) -> tuple[Tensor, Jagged]:
        """The codes in some cells, cell after cell, and which are whose.

        Args:
            cells: ``(n,)`` numbers of cells.
            field: name of the field, for error messages.

        Raises:
            InputError: there is no such cell.
        """
        ends, cells, device = host_values(self.offsets), host_values(cells), cells.device
        check_codes(cells, len(ends) - 1, f"{field}, cells")
        starts = ends[cells]
        runs = Jagged(copy_to_device(np.append(0, (ends[cells + 1] - starts).cumsum()), device))
        return gather_slices({"": self.values}, copy_to_device(starts, device), runs)[""], runs


Cells = Mapping[str, CellValues]


@dataclass
class Batch:
    """B samples and the N behaviours of their histories.

    Samples may share a history, as the impressions of one request do: then there are H < B histories, and what depends
    on the history alone is computed once for all of them.

    Attributes:
        candidate: ``{field: (B,)}`` int32 codes of the candidate item.
        history: ``{field: (N,)}`` int32 codes of the behaviours, history after history, oldest first.
        offsets: ``(H + 1,)`` int64; history h's behaviours are ``[offsets[h], offsets[h + 1])``.
        profile: ``{field: (B,)}`` int32 codes.
        context: ``{field: (B,)}`` int32 codes.
        labels: ``(B,)`` in {0, 1}.
        negatives: ``{field: (N,)}`` codes of an item drawn in place of each behaviour, another than the one clicked; for
            the models that ask for them, in training only.
        drawn: ``(N, behavior_width)`` the vectors of ``negatives``, once the model has looked them up.
        owner: ``(B,)`` int64, the history of each sample, not falling; None if each has its own (H = B).
        cells: ``{field: the values of its cells}`` of multi-hot fields, whose codes above are numbers of cells.
    """

    candidate: dict[str, Tensor]
    history: dict[str, Tensor]
    offsets: Tensor
    profile: dict[str, Tensor]
    context: dict[str, Tensor]
    labels: Tensor
    negatives: dict[str, Tensor] | None = None
    drawn: Tensor | None = None
    owner: Tensor | None = None
    cells: Cells = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.labels)

    def sent_to(self, device: torch.device, cells: Cells) -> "Batch":
        """The batch of a CPU on a device, where the multi-hot fields' cells are these; the host remembers what it sent."""

        def there(values):
            if isinstance(values, dict):
                return {name: there(codes) for name, codes in values.items()}
            return None if values is None else copy_to_device(values.numpy(), device)

        return replace(
            self, candidate=there(self.candidate), history=there(self.history), offsets=there(self.offsets),
            profile=there(self.profile), context=there(self.context), labels=there(self.labels),
            negatives=there(self.negatives), drawn=None, owner=there(self.owner), cells=cells,
        )  # fmt: skip

    @cached_property
    def histories(self) -> Jagged:
        """The H histories as runs of the N behaviours.

        Raises:
            InputError: offsets, fields and labels do not fit together.
        """
        runs = Jagged(self.offsets)
        self._check(runs)
        return runs

    def _check(self, runs: Jagged) -> None:
        """All models come by here before they index by offsets: what they rely on is checked once a batch, on the host."""
        behaviors = {name: codes.shape[0] for name, codes in self.history.items()}
        rows = next(iter(behaviors.values()), runs.total)
        check_offsets(runs.on_host, rows, "offsets of the histories")
        if self.negatives:
            behaviors |= {f"negatives, {name}": codes.shape[0] for name, codes in self.negatives.items()}
        _check_lengths(behaviors, rows, "behaviours")
        samples = runs.size if self.owner is None else self.owner.shape[0]
        _check_lengths({"labels": self.labels.shape[0]}, samples, "samples")
        for group in (self.candidate, self.profile, self.context):
            _check_lengths({name: codes.shape[0] for name, codes in group.items()}, samples, "samples")

    @cached_property
    def pairs(self) -> Jagged:
        """Every sample's history, for what depends on the candidate too; `ops.segments.expand` brings rows there."""
        return self.histories if self.owner is None else share_segments(self.histories, self.owner)

    @cached_property
    def samples_per_history(self) -> Tensor:
        """``(H,)`` int32, how many samples have each history; what is averaged over behaviours weights them by it."""
        counts = np.ones(self.histories.size, np.int32)
        if self.owner is not None:
            counts = np.bincount(host_values(self.owner), minlength=self.histories.size).astype(np.int32)
        return copy_to_device(counts, self.offsets.device)

    def newest(self, count: int) -> SharedSegments:
        """Every sample's last ``count`` behaviours, or all if there are fewer, oldest first."""
        ends, lengths = self.histories.on_host[1:], np.diff(self.pairs.on_host).clip(max=count)
        if self.owner is not None:
            ends = ends[host_values(self.owner)]
        device = self.offsets.device
        return SharedSegments(
            copy_to_device(np.append(0, lengths.cumsum()), device), copy_to_device(ends - lengths, device)
        )

    def per_sample(self, of_histories: Tensor) -> Tensor:
        """What each sample's history has. Shape: ``(H, D) -> (B, D)``."""
        return of_histories if self.owner is None else of_histories.index_select(0, self.owner)

    def codes(self, group: Group, field: str) -> Tensor:
        """The codes of one field of a feature group; of a multi-hot field the numbers of cells."""
        groups = {
            "item": self.candidate,
            "behavior": self.history,
            "profile": self.profile,
            "context": self.context,
        }
        return groups[group][field]

    def values(self, group: Group, field: str) -> tuple[Tensor, Jagged | None]:
        """The codes of the values in one field of a feature group, and of a multi-hot field which are whose."""
        codes = self.codes(group, field)
        return self.cells[field].of(codes, field) if field in self.cells else (codes, None)


def _check_lengths(found: Mapping[str, int], expected: int, of: str) -> None:
    for name, length in found.items():
        if length != expected:
            raise InputError(
                f"{name}: found {length} values for {expected} {of}; the offsets, or the owners of shared histories, say how many "
                "a batch has"
            )


@dataclass
class ModelOutput:
    """What a model returns.

    Attributes:
        logits: ``(B,)``; the predicted CTR is their sigmoid.
        auxiliary_loss: scalar added to the target loss with its weight already applied, or None.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
