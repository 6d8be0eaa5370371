"""Batch: the input of a model. Histories are jagged, without padding."""

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


class ValueSetLookup(NamedTuple):
    """The value sets of a multi-hot field.

    Attributes:
        offsets: ``(C + 1,)`` int64; the values of value set c are ``[offsets[c], offsets[c + 1])``.
        values: ``(M,)`` int32 codes.
    """

    offsets: Tensor
    values: Tensor

    def of(self, value_sets: Tensor, field: str) -> tuple[Tensor, Jagged]:
        """Return the codes in some value sets, concatenated, and the segment of each set.

        Args:
            value_sets: ``(n,)`` indices of value sets.
            field: name of the field, for error messages.

        Raises:
            InputError: an index is out of range.
        """
        ends, index, device = host_values(self.offsets), host_values(value_sets), value_sets.device
        check_codes(index, len(ends) - 1, f"{field}, value sets")
        starts = ends[index]
        runs = Jagged(copy_to_device(np.append(0, (ends[index + 1] - starts).cumsum()), device))
        return gather_slices({"": self.values}, copy_to_device(starts, device), runs)[""], runs


ValueSetsByField = Mapping[str, ValueSetLookup]


@dataclass
class Batch:
    """B samples and the N behaviours of their histories.

    Samples may share a history, as the impressions of one request do: then there are H < B histories, and everything that
    depends on the history alone is computed once per history.

    Attributes:
        candidate: ``{field: (B,)}`` int32 codes of the candidate item.
        history: ``{field: (N,)}`` int32 codes of the behaviours, histories concatenated, oldest behaviour first.
        offsets: ``(H + 1,)`` int64; history h's behaviours are ``[offsets[h], offsets[h + 1])``.
        profile: ``{field: (B,)}`` int32 codes.
        context: ``{field: (B,)}`` int32 codes.
        labels: ``(B,)`` in {0, 1}.
        negatives: ``{field: (N,)}`` codes of a negative item for each behaviour, different from the clicked one; only in
            training and for models that use them.
        negative_vectors: ``(N, shared_width)`` embeddings of ``negatives``, once the model has looked them up.
        shared_vectors: ``(N, shared_width)`` embeddings of the fields of the behaviours that the candidate also has, once the
            model has looked them up: what an auxiliary loss predicts.
        owner: ``(B,)`` int64, non-decreasing index of each sample's history; None if each sample has its own (H = B).
        value_sets: ``{field: ValueSetLookup}`` of multi-hot fields; their codes above are indices of value sets.
        sequences: the same samples with another sequence of behaviours each, by the name of the sequence.
        weights: ``(B,)`` weights of the samples in the training loss; None if all are equal.
        arrived: ``(B,)`` probability that a click on the sample is known by now; None if all labels are final.
        booster_logits: ``(B,)`` logits of a model that was trained before, from which a light net learns (`models.rocket`).
        slots: ``(B,)`` slots in which training samples were shown, from 1; models do not read them (`training.position`).
    """

    candidate: dict[str, Tensor]
    history: dict[str, Tensor]
    offsets: Tensor
    profile: dict[str, Tensor]
    context: dict[str, Tensor]
    labels: Tensor
    negatives: dict[str, Tensor] | None = None
    negative_vectors: Tensor | None = None
    shared_vectors: Tensor | None = None
    owner: Tensor | None = None
    value_sets: ValueSetsByField = field(default_factory=dict)
    sequences: dict[str, "Batch"] = field(default_factory=dict)
    weights: Tensor | None = None
    arrived: Tensor | None = None
    booster_logits: Tensor | None = None
    slots: Tensor | None = None

    @property
    def size(self) -> int:
        """B, the number of samples."""
        return len(self.labels)

    def to_device(self, device: torch.device, value_sets: ValueSetsByField) -> "Batch":
        """Copy a CPU batch to a device asynchronously; the host copies stay available.

        Args:
            device: target device.
            value_sets: value sets of the multi-hot fields on that device.
        """

        def move(values):
            if isinstance(values, dict):
                return {name: move(codes) for name, codes in values.items()}
            return None if values is None else copy_to_device(values.numpy(), device)

        return replace(
            self, candidate=move(self.candidate), history=move(self.history), offsets=move(self.offsets),
            profile=move(self.profile), context=move(self.context), labels=move(self.labels),
            negatives=move(self.negatives), negative_vectors=None, shared_vectors=None, owner=move(self.owner), value_sets=value_sets,
            sequences={name: batch.to_device(device, value_sets) for name, batch in self.sequences.items()},
            weights=move(self.weights), arrived=move(self.arrived), booster_logits=move(self.booster_logits),
            slots=move(self.slots),
        )  # fmt: skip

    @cached_property
    def histories(self) -> Jagged:
        """The H histories as segments of the N behaviours.

        Raises:
            InputError: the lengths of offsets, fields and labels are inconsistent.
        """
        runs = Jagged(self.offsets)
        self._check(runs)
        return runs

    def _check(self, runs: Jagged) -> None:
        """Check lengths and offsets on the host, once per batch, before any model uses them as indices."""
        behaviors = {name: codes.shape[0] for name, codes in self.history.items()}
        rows = next(iter(behaviors.values()), runs.total)
        check_offsets(runs.host_offsets, rows, "offsets of the histories")
        if self.negatives:
            behaviors |= {f"negatives, {name}": codes.shape[0] for name, codes in self.negatives.items()}
        _check_lengths(behaviors, rows, "behaviours")
        samples = runs.size if self.owner is None else self.owner.shape[0]
        _check_lengths({"labels": self.labels.shape[0]}, samples, "samples")
        for group in (self.candidate, self.profile, self.context):
            _check_lengths({name: codes.shape[0] for name, codes in group.items()}, samples, "samples")

    @cached_property
    def pairs(self) -> Jagged:
        """The history of each sample, for everything that depends on the candidate; see `ops.segments.expand`."""
        return self.histories if self.owner is None else share_segments(self.histories, self.owner)

    @cached_property
    def samples_per_history(self) -> Tensor:
        """``(H,)`` int32 number of samples of each history: the weight of its behaviours in averages over samples."""
        counts = np.ones(self.histories.size, np.int32)
        if self.owner is not None:
            counts = np.bincount(host_values(self.owner), minlength=self.histories.size).astype(np.int32)
        return copy_to_device(counts, self.offsets.device)

    def newest(self, count: int) -> SharedSegments:
        """Return the last ``count`` behaviours of each sample, or all if there are fewer, oldest first."""
        ends, lengths = self.histories.host_offsets[1:], np.diff(self.pairs.host_offsets).clip(max=count)
        if self.owner is not None:
            ends = ends[host_values(self.owner)]
        device = self.offsets.device
        return SharedSegments(
            copy_to_device(np.append(0, lengths.cumsum()), device), copy_to_device(ends - lengths, device)
        )

    def per_sample(self, of_histories: Tensor) -> Tensor:
        """Repeat the row of a history for each of its samples. Shape: ``(H, D) -> (B, D)``."""
        return of_histories if self.owner is None else of_histories.index_select(0, self.owner)

    def codes(self, group: Group, field: str) -> Tensor:
        """Return the codes of a field of a feature group; for a multi-hot field, the indices of its value sets."""
        groups = {
            "item": self.candidate,
            "behavior": self.history,
            "profile": self.profile,
            "context": self.context,
        }
        return groups[group][field]

    def values(self, group: Group, field: str) -> tuple[Tensor, Jagged | None]:
        """Return the codes of the values in a field of a feature group, and for a multi-hot field their segments."""
        codes = self.codes(group, field)
        return self.value_sets[field].of(codes, field) if field in self.value_sets else (codes, None)


def _check_lengths(lengths: Mapping[str, int], expected: int, unit: str) -> None:
    for name, length in lengths.items():
        if length != expected:
            raise InputError(
                f"{name}: found {length} values for {expected} {unit}; the number of values must agree with the offsets, or "
                "with the owners of shared histories"
            )


@dataclass
class ModelOutput:
    """Output of a model.

    Attributes:
        logits: ``(B,)``; the predicted CTR is their sigmoid.
        auxiliary_loss: scalar added to the target loss with its weight already applied, or None.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
