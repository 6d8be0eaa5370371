"""Who met which item when, and the visits in which users come."""

from dataclasses import dataclass

import numpy as np

from deep_interest.simulation.config import SECONDS_PER_DAY

_AWAKE = np.array([3, 2, 1, 1, 1, 1, 2, 3, 4, 5, 6, 6, 7, 6, 6, 6, 6, 6, 7, 9, 11, 12, 9, 6], float)
_HOUR_CUMULATIVE = np.cumsum(_AWAKE) / _AWAKE.sum()


@dataclass(frozen=True)
class Events:
    """Behaviours or impressions of a block of users, ordered by user and time; all arrays of shape (k,).

    Attributes:
        user: index of the user in the block.
        item: index of the item in the `World`.
        second: seconds since the first day's begin.
    """

    user: np.ndarray
    item: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Visits:
    """Visits of a block of n users, ordered by user.

    Attributes:
        user: index of the user in the block, shape (V,).
        second: begin, in seconds since the first day's begin, shape (V,).
        first: the visits of user u are ``first[u]:first[u + 1]``, shape (n + 1,).
    """

    user: np.ndarray
    second: np.ndarray
    first: np.ndarray


def draw_visits(counts: np.ndarray, days: range, rng: np.random.Generator) -> Visits:
    """Draw ``counts`` (n,) visits per user over ``days``: any of them alike, at the hours when people are awake."""
    total = int(counts.sum())
    hour = np.searchsorted(_HOUR_CUMULATIVE, rng.random(total), side="right")
    day = rng.integers(days.start, days.stop, size=total)
    return Visits(
        user=np.repeat(np.arange(len(counts)), counts),
        second=day * SECONDS_PER_DAY + hour * 3600 + rng.integers(3600, size=total),
        first=np.concatenate([[0], np.cumsum(counts)]),
    )
