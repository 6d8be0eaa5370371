"""What can be counted about a candidate and a history, without embeddings: rates, matches, newest behaviours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from deep_interest.logs.schema import FeatureSchema, Field, Group
from deep_interest.models.batch import Batch, ValueSetLookup
from deep_interest.models.popularity import prior_strength

WINDOWS = (1, 5, 20)  # newest behaviours in which matches are counted, next to all
MOST_COUNTED_CODES = 16  # matches are counted by code for own fields of at most this size
MOST_PLAIN_CODES = 32  # larger profile and context fields are represented by the rates of their codes alone


class Rates:
    """Smoothed positive rates of the codes of a field, each computed without the samples of one fold.

    Args:
        size: number of codes.
        folds: number of folds.
    """

    def __init__(self, size: int, folds: int) -> None:
        self.positives, self.samples = np.zeros((folds, size)), np.zeros((folds, size))

    def add(self, folds: np.ndarray, codes: np.ndarray, labels: np.ndarray) -> None:
        """Count rows with folds, codes and labels, ``(n,)`` each."""
        cells, shape = folds * self.samples.shape[1] + codes, self.samples.shape
        self.samples += np.bincount(cells, minlength=self.samples.size).reshape(shape)
        self.positives += np.bincount(cells, weights=labels, minlength=self.samples.size).reshape(shape)

    def without_each_fold(self) -> np.ndarray:
        """Return the rates ``(folds + 1, size)`` float32: row f without fold f, the last row of all samples.

        A rate is ``(k + a m) / (n + a)`` as in `ItemRate`; a code without samples has the mean m.
        """
        excluded = np.vstack([np.eye(len(self.samples)), np.zeros(len(self.samples))])
        k, n = ((1 - excluded) @ counts for counts in (self.positives, self.samples))
        mean = k.sum(1, keepdims=True) / np.maximum(n.sum(1, keepdims=True), 1)
        strength = [
            prior_strength(torch.from_numpy(p), torch.from_numpy(s)) if s.any() else 1.0
            for p, s in zip(k, n, strict=True)
        ]
        a = np.array(strength)[:, None]
        return ((k + a * mean) / (n + a)).astype(np.float32)


@dataclass
class Pairs:
    """The behaviours of each of the B samples of a batch, P in total, oldest first within a sample.

    Attributes:
        batch: the batch.
    """

    batch: Batch

    @cached_property
    def sample(self) -> np.ndarray:
        """``(P,)`` sample of each behaviour."""
        return self.batch.pairs.segments.cpu().numpy()

    @cached_property
    def age(self) -> np.ndarray:
        """``(P,)`` number of later behaviours of the same history."""
        return self.batch.pairs.distances.cpu().numpy()

    @cached_property
    def lengths(self) -> np.ndarray:
        """``(B,)`` number of behaviours."""
        return np.diff(self.batch.pairs.host_offsets)

    @cached_property
    def rows(self) -> np.ndarray:
        """``(P,)`` row of each behaviour among those of the batch."""
        pairs = self.batch.pairs
        positions = getattr(pairs, "positions", None)
        return np.arange(pairs.total) if positions is None else positions.cpu().numpy()

    def codes(self, field: str) -> np.ndarray:
        """Return the codes ``(P,)`` of a field of the behaviours."""
        return self.batch.history[field].cpu().numpy()[self.rows]

    @cached_property
    def newest(self) -> np.ndarray:
        """``(B,)`` index of each sample's newest behaviour, -1 without behaviours."""
        return np.where(self.lengths > 0, self.batch.pairs.host_offsets[1:] - 1, -1)

    def matches(self, field: Field) -> np.ndarray:
        """Return how much of the candidate's field each behaviour has, ``(P,)`` in [0, 1]; unknown values match nothing.

        For a one-hot field, 1 if the codes are equal; for a multi-hot field, the share of the candidate's values.
        """
        candidate = self.batch.candidate[field.name].cpu().numpy()[self.sample]
        codes = self.codes(field.name)
        if field.pooling is None:
            return ((codes == candidate) & (codes > 0)).astype(np.float64)
        return _shared_values(candidate, codes, self.batch.value_sets[field.name])

    def newest_match(self, matches: np.ndarray) -> np.ndarray:
        """Return the index of each sample's newest behaviour with a match, ``(B,)``; -1 without one."""
        newest, matching = np.full(len(self.lengths), -1), np.flatnonzero(matches)
        newest[self.sample[matching]] = matching  # of repeated indices the last is kept
        return newest

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum values of behaviours by sample. Shape: ``(P,) -> (B,)``."""
        return np.bincount(self.sample, weights=values, minlength=len(self.lengths))


def _shared_values(candidate: np.ndarray, behavior: np.ndarray, sets: ValueSetLookup) -> np.ndarray:
    """Return the share of the values of a value set that another has, for pairs of value sets. Shape: ``(P,), (P,) -> (P,)``."""
    offsets, values = sets.offsets.cpu().numpy(), sets.values.cpu().numpy()
    keys = candidate.astype(np.int64) * (len(offsets) - 1) + behavior
    distinct, inverse = np.unique(keys, return_inverse=True)
    first, second = np.divmod(distinct, len(offsets) - 1)
    span = np.int64(values.max(initial=0)) + 1
    candidate_values, behavior_values = (
        _values_of(chosen, offsets, values, span) for chosen in (first, second)
    )
    shared = np.intersect1d(candidate_values, behavior_values, assume_unique=True)
    counts = np.bincount(shared // span, minlength=len(distinct))
    return (counts / np.diff(offsets)[first])[inverse]


def _values_of(sets: np.ndarray, offsets: np.ndarray, values: np.ndarray, span: np.int64) -> np.ndarray:
    """Return ``k · span + value`` for each known value of the k-th value set."""
    lengths = np.diff(offsets)[sets]
    owner = np.repeat(np.arange(len(sets)), lengths)
    rows = np.arange(len(owner)) + np.repeat(offsets[sets] - np.append(0, lengths.cumsum())[:-1], lengths)
    return (owner * span + values[rows])[values[rows] > 0]


def values_by_row(batch: Batch, group: Group, field: Field) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and codes, one for each value of a field: ``(n,)`` each; multi-hot fields have several values per row."""
    codes, value_sets = batch.values(group, field.name)
    rows = np.arange(len(codes)) if value_sets is None else value_sets.segments.cpu().numpy()
    return rows, codes.cpu().numpy()


def one_hot(fields: Sequence[Field]) -> list[Field]:
    """Return the fields with one category per row."""
    return [field for field in fields if field.one_hot]


def categorical(fields: Sequence[Field]) -> list[Field]:
    """Return the fields whose values can match or be counted: all but dense ones."""
    return [field for field in fields if not field.dense]


def candidate_fields(schema: FeatureSchema) -> Iterator[tuple[Group, Field]]:
    """Yield group and field of everything that is known about a sample apart from the behaviours."""
    groups: tuple[Group, ...] = ("item", "profile", "context")
    for group in groups:
        for field in schema.fields(group):
            yield group, field
