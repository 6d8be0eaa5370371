"""Where random numbers come from, and weighted draws from many groups at once."""

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
}
"""Second word of each generator's seed, so that no two parts of a log share random numbers."""


def generator(seed: int, stream: str, block: int) -> np.random.Generator:
    """Return the generator of one part (`STREAMS`) of one block of users."""
    return np.random.default_rng([seed, STREAMS[stream], block])


@dataclass(frozen=True)
class WeightedGroups:
    """Members in groups, each drawn within its group in proportion to its weight.

    Attributes:
        keys: the groups, ascending, shape (G,).
        bounds: members of group g stand at ``bounds[g]:bounds[g + 1]``, shape (G + 1,).
        members: ordered by group, shape (N,).
        cumulative: running sum of the members' weights with a leading 0, shape (N + 1,).
    """

    keys: np.ndarray
    bounds: np.ndarray
    members: np.ndarray
    cumulative: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, members: np.ndarray, weights: np.ndarray) -> "WeightedGroups":
        """Group ``members`` (N,) by ``keys`` (N,); ``weights`` (N,) are positive."""
        order = np.argsort(keys, kind="stable")
        groups, first = np.unique(keys[order], return_index=True)
        return cls(
            keys=groups,
            bounds=np.append(first, len(keys)),
            members=members[order],
            cumulative=np.concatenate([[0.0], np.cumsum(weights[order])]),
        )

    def draw(self, keys: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw one member of each of the groups ``keys`` (n,), by ``uniforms`` (n,) in [0, 1); -1: no such group."""
        group = self._find(keys)
        first, end = self.bounds[group], self.bounds[group + 1]
        low, high = self.cumulative[first], self.cumulative[end]
        position = np.searchsorted(self.cumulative, low + uniforms * (high - low), side="right") - 1
        drawn = self.members[np.clip(position, first, end - 1)]
        return np.where(self.keys[group] == keys, drawn, -1)

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Position in ``self.keys`` of each key (n,), or of some other group where there is none such."""
        last = len(self.keys) - 1
        if (
            self.keys[0] == 0 and self.keys[last] == last
        ):  # the keys are 0, 1, …, so nothing is to be searched
            return np.minimum(keys, last)
        return np.minimum(np.searchsorted(self.keys, keys), last)


def zipf_weights(count: int, exponent: float, rng: np.random.Generator) -> np.ndarray:
    """Return weights ``1 / rank ** exponent`` in random order, shape (count,)."""
    return rng.permutation(1.0 / np.arange(1, count + 1) ** exponent)
