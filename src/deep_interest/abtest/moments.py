"""Number, mean and covariance of the sums of an arm's users: all that ratios, their intervals and CUPED need."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.abtest.metrics import QUANTITIES, Metric
from deep_interest.errors import InputError

K = len(QUANTITIES)


@dataclass(frozen=True)
class Moments:
    """Moments of the users of one arm.

    Attributes:
        users: number of users.
        mean: ``(3,)`` means of impressions, clicks and revenue, followed by those of the covariates.
        covariance: ``(k, k)`` covariance over users, with the divisor ``users - 1``.
    """

    users: int
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike) -> "Moments":
        """Compute the moments of users.

        Args:
            values: ``(n, k)`` impressions, clicks and revenue of each user, followed by any number of covariates.

        Raises:
            InputError: the array has another shape.
        """
        rows = np.asarray(values, np.float64)
        if rows.ndim != 2 or rows.shape[1] < K:
            raise InputError(
                f"values: found an array of shape {rows.shape}, expected one row per user with {', '.join(QUANTITIES)} and covariates"
            )
        users = len(rows)
        mean = rows.mean(axis=0) if users else np.zeros(rows.shape[1])
        centred = rows - mean
        return cls(users, mean, centred.T @ centred / max(1, users - 1))

    @property
    def covariates(self) -> int:
        """Number of covariates."""
        return len(self.mean) - K

    def ratio(self, metric: Metric) -> float:
        """Return the metric of the arm; NaN without any denominator."""
        x = 1.0 if metric.x is None else self.mean[metric.x]
        return float(metric.factor * self.mean[metric.y] / x) if self.users and x > 0 else float("nan")

    def gradient(self, metric: Metric) -> NDArray[np.float64]:
        """Return the gradient ``(k,)`` of the logarithm of the metric with respect to the means; 0 for covariates.

        The covariance of users' sums times this gradient is the delta method: ``log(Y/X)`` changes by ``dY/Y - dX/X``.
        """
        gradient = np.zeros(len(self.mean))
        gradient[metric.y] += 1 / self.mean[metric.y]
        if metric.x is not None:
            gradient[metric.x] -= 1 / self.mean[metric.x]
        return gradient
