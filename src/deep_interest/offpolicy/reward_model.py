"""A reward model for doubly robust estimates: smoothed rates of items and slots, estimated without the users to whom they are applied."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_interest.logs.hashing import Purpose, hash64

FOLDS = 2
_PRIOR = 10.0  # positive rewards, as expected by slot, that an item is credited with


@dataclass(frozen=True)
class Rates:
    """Mean reward by item and slot: ``slot rate × item factor``.

    Attributes:
        by_slot: ``(K + 1,)`` mean reward of each slot, from slot 1.
        factor: ``(I,)`` reward of an item relative to what its slots earn on average, smoothed towards 1.
    """

    by_slot: NDArray[np.float64]
    factor: NDArray[np.float64]

    def of(self, item: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the expected reward of items in slots."""
        return self.by_slot[slot] * self.factor[item]


def fold_of(cluster: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fold of each user, by a hash, ``(N,)``."""
    return (hash64(0, Purpose.FOLD, cluster) % np.uint64(FOLDS)).astype(np.int64)


def rates_without(
    fold: int,
    folds: NDArray[np.int64],
    *,
    item: NDArray[np.int64],
    slot: NDArray[np.int64],
    reward: NDArray[np.float64],
    items: int,
    slots: int,
) -> Rates:
    """Estimate the rates from the rows of all other folds.

    Args:
        fold: the fold that is left out.
        folds: ``(N,)`` fold of each row.
        item: ``(N,)`` number of the item, from 0.
        slot: ``(N,)`` slot, from 1.
        reward: ``(N,)`` reward.
        items, slots: number of items and slots.
    """
    used = folds != fold
    item, slot, reward = item[used], slot[used], reward[used]
    overall = reward.mean() if len(reward) else 0.0
    shown = np.bincount(slot, minlength=slots + 1)
    earned = np.bincount(slot, weights=reward, minlength=slots + 1)
    by_slot = np.where(shown > 0, earned / np.maximum(shown, 1), overall)
    expected = np.bincount(item, weights=by_slot[slot], minlength=items)
    rewards = np.bincount(item, weights=reward, minlength=items)
    positive = reward[reward > 0]
    prior = _PRIOR * (positive.mean() if len(positive) else 1.0)
    return Rates(by_slot, (rewards + prior) / (expected + prior))
