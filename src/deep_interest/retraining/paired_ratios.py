"""Intervals of ratios of sums, and of the difference of two, over users: GAUC, log loss and calibration of several nights.

All three are a sum over a sum. The rows of a user, on any night, depend on one another, so the variance is that of the users' sums
(the delta method for a ratio, as for a cluster sample: Cochran 1977, §6.4). It is about the fits at hand.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from deep_interest.evaluation.significance import CONFIDENCE, Interval


@dataclass(frozen=True)
class RatioOfSums:
    """A metric as a ratio of sums over users.

    Attributes:
        users: ``(m,)`` ids, ascending.
        numerator, denominator: ``(m,)`` sums of each user.
    """

    users: NDArray[np.int64]
    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64]

    @classmethod
    def of(cls, users: np.ndarray, numerator: np.ndarray, denominator: np.ndarray) -> "RatioOfSums":
        """Sum rows ``(n,)`` by user."""
        ids, index = np.unique(users, return_inverse=True)
        return cls(
            ids, *(np.bincount(index, of, len(ids)).astype(np.float64) for of in (numerator, denominator))
        )

    @property
    def value(self) -> float:
        """The metric."""
        return float(self.numerator.sum() / self.denominator.sum())

    @property
    def influence(self) -> NDArray[np.float64]:
        """``(m,)`` influence of each user on the metric."""
        return (self.numerator - self.value * self.denominator) / self.denominator.sum()


def paired_difference(ours: RatioOfSums, base: RatioOfSums, *, confidence: float = CONFIDENCE) -> Interval:
    """Return the difference of two metrics of the same users with its interval."""
    assert (ours.users == base.users).all()
    influence, difference = ours.influence - base.influence, ours.value - base.value
    users = len(influence)
    error = float(np.sqrt((influence**2).sum() * users / (users - 1)))
    half_width = ndtri((1 + confidence) / 2) * error
    p_value = 2 * ndtr(-abs(difference) / error) if error else float(difference == 0)
    return Interval(difference, difference - half_width, difference + half_width, float(p_value))
