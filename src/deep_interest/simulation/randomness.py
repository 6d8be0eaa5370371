"""Random number generators, and weighted draws from many groups at once."""

from dataclasses import dataclass

import numpy as np

STREAMS = {
    "world": 0,
    "users": 1,
    "interests": 2,
    "behaviors": 3,
    "impressions": 4,
    "labels": 5,
    "listings": 6,
    "prices": 7,
    "actions": 8,
    "visits": 9,
    "bids": 10,
    "slots": 11,
    "delays": 12,
    "category_delays": 13,
}
"""Second part of each generator's seed, so that no two steps of the simulation share random numbers."""


def generator(seed: int, stream: str, block: int, *parts: int) -> np.random.Generator:
    """Return the random number generator of a stream (see `STREAMS`) for one block of users, or for a part of it such as a day."""
    return np.random.default_rng([seed, STREAMS[stream], block, *parts])


@dataclass(frozen=True)
class WeightedGroups:
    """Groups of members; each member is drawn within its group in proportion to its weight.

    Attributes:
        keys: keys of the groups, ascending, shape (G,).
        offsets: the members of group g are ``members[offsets[g]:offsets[g + 1]]``, shape (G + 1,).
        members: members ordered by group, shape (N,).
        cumulative: cumulative sum of the members' weights with a leading 0, shape (N + 1,).
    """

    keys: np.ndarray
    offsets: np.ndarray
    members: np.ndarray
    cumulative: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, members: np.ndarray, weights: np.ndarray) -> "WeightedGroups":
        """Group ``members`` (N,) by ``keys`` (N,) with positive ``weights`` (N,)."""
        order = np.argsort(keys, kind="stable")
        groups, first = np.unique(keys[order], return_index=True)
        return cls(
            keys=groups,
            offsets=np.append(first, len(keys)),
            members=members[order],
            cumulative=np.concatenate([[0.0], np.cumsum(weights[order])]),
        )

    def draw(self, keys: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw one member of each group ``keys`` (n,) with ``uniforms`` (n,) in [0, 1); -1 for a missing group."""
        group = self._find(keys)
        first, end = self.offsets[group], self.offsets[group + 1]
        low, high = self.cumulative[first], self.cumulative[end]
        index = np.searchsorted(self.cumulative, low + uniforms * (high - low), side="right") - 1
        member = self.members[np.clip(index, first, end - 1)]
        return np.where(self.keys[group] == keys, member, -1)

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Return the index in ``self.keys`` of each key (n,), or an arbitrary index if the key does not exist."""
        last = len(self.keys) - 1
        if self.keys[0] == 0 and self.keys[last] == last:  # the keys are 0, 1, …: no search needed
            return np.minimum(keys, last)
        return np.minimum(np.searchsorted(self.keys, keys), last)


def zipf_weights(count: int, exponent: float, rng: np.random.Generator) -> np.ndarray:
    """Return weights ``1 / rank ** exponent`` in random order, shape (count,)."""
    return rng.permutation(1.0 / np.arange(1, count + 1) ** exponent)
