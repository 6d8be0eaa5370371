"""Sparse tables by pairs of items: sums over a stream of behaviours, and lookup."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class PairSums:
    """Sums of values by pairs of items.

    Attributes:
        keys: ``(k,)`` int64 ascending: first item · items + second item.
        sums: ``(k, columns)``.
    """

    keys: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray) -> "PairSums":
        """Add the rows of ``values (n, columns)`` with equal keys."""
        distinct, index = np.unique(keys, return_inverse=True)
        sums = [np.bincount(index, weights=column, minlength=len(distinct)) for column in values.T]
        return cls(distinct, np.stack(sums, axis=1))

    def largest(self, size: np.ndarray, count: int, *, items: int) -> np.ndarray:
        """Return the ascending rows of at most ``count`` pairs of each first item: those with the largest ``size (k,)``."""
        first = self.keys // items
        order = np.lexsort((-size, first))
        rank = np.arange(len(order)) - np.searchsorted(first, first)
        return np.sort(order[rank < count])


def add_by_pairs(stream: Iterable[PairSums], *, items: int) -> Iterator[PairSums]:
    """Add values by pairs, and yield the sums in ascending order of the keys.

    Only the pairs of one first item are unfinished at any time, so that memory is bounded by those of an element of the stream.

    Args:
        stream: values by key, in any order and repeated within an element; the first items do not decrease from one element
            to the next.
        items: number of items.
    """
    pending: PairSums | None = None
    for part in stream:
        if not len(part.keys):
            continue
        sums = PairSums.of(part.keys, part.sums)
        if pending is not None:
            both = zip((pending.keys, pending.sums), (sums.keys, sums.sums), strict=True)
            sums = PairSums.of(*(np.concatenate(parts) for parts in both))
        finished = int(np.searchsorted(sums.keys, sums.keys[-1] // items * items))
        yield PairSums(sums.keys[:finished], sums.sums[:finished])
        pending = PairSums(sums.keys[finished:], sums.sums[finished:])
    if pending is not None:
        yield pending


def look_up(keys: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """Return the values of pairs, 0 for missing ones.

    Args:
        keys: ``(k,)`` ascending.
        values: ``(k, columns)``.
        wanted: ``(n,)`` keys.

    Returns:
        ``(n, columns)``.
    """
    if not len(keys):
        return values.new_zeros(len(wanted), values.shape[1])
    position = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return values[position] * (keys[position] == wanted).unsqueeze(1)
