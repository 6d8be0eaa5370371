"""Estimators of the mean reward of an impression under another policy, with intervals over users.

With the reward ``r``, the weight ``w`` (`decisions.slate_weights`), and for a reward model ``q`` its value ``q(shown)`` of the item that was shown and
``m = Σ_a π_B(a) q(a)`` of the target policy, over N rows:

    IPS         1/N Σ w r                                Horvitz and Thompson, 1952
    SNIPS       Σ w r / Σ w                              Swaminathan and Joachims, NIPS 2015
    DR          1/N Σ [m + w (r - q(shown))]             Dudík, Langford and Li, ICML 2011
    switch-DR   1/N Σ [m + 1{w <= τ} w (r - q(shown))]   Wang, Agarwal and Dudík, ICML 2017

Each is a mean of contributions, SNIPS after linearisation. Contributions of a user depend on each other, so the variance is that of the sums of
users. The interval has Student's t with one degree of freedom less than users.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from deep_interest.errors import InputError
from deep_interest.offpolicy.decisions import Decisions

LEVEL = 0.05
_THRESHOLDS = 20  # candidates of switch-DR, quantiles of the weights


@dataclass(frozen=True)
class Estimate:
    """An estimate of a mean reward.

    Attributes:
        value: the estimate.
        low, high: ends of the 95 % interval.
        error: standard error over users.
        contributions: ``(N,)`` influence of each row on the estimate, of mean 0.
    """

    value: float
    low: float
    high: float
    error: float
    contributions: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        value: float,
        contributions: NDArray[np.float64],
        cluster: NDArray[np.int64],
        level: float = LEVEL,
    ) -> "Estimate":
        """Return an estimate with its interval.

        Args:
            value: the estimate.
            contributions: ``(N,)`` influence of each row, of mean 0.
            cluster: ``(N,)`` number of the user of each row.
            level: probability with which the interval misses the truth.

        Raises:
            InputError: fewer than two users.
        """
        sums = np.bincount(cluster, weights=contributions)
        users = int((np.bincount(cluster) > 0).sum())
        if users < 2:
            raise InputError(
                f"users: found {users}, expected at least 2: one user has no variance over users"
            )
        error = float(np.sqrt(users / (users - 1) * (sums**2).sum()) / len(contributions))
        half = float(stdtrit(users - 1, 1 - level / 2)) * error
        return cls(value, value - half, value + half, error, contributions)


def on_policy(decisions: Decisions) -> Estimate:
    """Estimate the mean reward of the logging policy."""
    return _mean(decisions.reward, decisions)


def ips(decisions: Decisions, weights: NDArray[np.float64]) -> Estimate:
    """Estimate by inverse propensity scores: unbiased if all that B shows is shown by A with a known probability.

    Example:
        >>> import numpy as np
        >>> log = Decisions(
        ...     np.arange(4),
        ...     np.arange(4),
        ...     np.ones(4, int),
        ...     np.array([1.0, 0, 0, 1]),
        ...     np.full(4, 0.5),
        ...     np.array([1.0, 0, 0, 0.5]),
        ... )
        >>> ips(log, log.ratio).value  # (2 × 1 + 1 × 1) / 4
        0.75
    """
    return _mean(weights * decisions.reward, decisions)


def snips(decisions: Decisions, weights: NDArray[np.float64]) -> Estimate:
    """Estimate by self-normalised inverse propensity scores: does not change if all propensities are off by a factor.

    Raises:
        InputError: all weights are 0.
    """
    mean = float(weights.mean())
    if not mean > 0:
        raise InputError(
            "weights: all are 0, expected that the policy to evaluate shows some of the items that were shown"
        )
    value = float((weights * decisions.reward).mean()) / mean
    return Estimate.of(value, weights * (decisions.reward - value) / mean, decisions.cluster)


def doubly_robust(decisions: Decisions, weights: NDArray[np.float64]) -> Estimate:
    """Estimate by the reward model, corrected by the weighted residuals: unbiased if the propensities or the model are right.

    Raises:
        InputError: the decisions have no reward model.
    """
    expected, residual = _residuals(decisions)
    return _mean(expected + weights * residual, decisions)


def switch_dr(
    decisions: Decisions, weights: NDArray[np.float64], threshold: float | None = None
) -> tuple[Estimate, float]:
    """Estimate as `doubly_robust`, by the model alone where the weight is above a threshold τ.

    The default τ is the quantile of the weights that minimises the estimated variance plus the square of an upper bound of the bias: the largest reward
    times the share of the target policy's probability that is above τ (Wang et al. 2017, section 3.2). It is cautious, so that the
    interval covers: the estimate then mostly is that of `doubly_robust`. A smaller τ has less variance, and an interval that does not know
    of the bias.

    Args:
        decisions: the log.
        weights: weight of each row.
        threshold: τ; chosen if None.

    Returns:
        The estimate, and τ; infinity if no row is above it.

    Raises:
        InputError: the decisions have no reward model.
    """
    expected, residual = _residuals(decisions)
    largest = float(np.abs(decisions.reward).max())
    thresholds: list[float] = []
    if threshold is not None:
        thresholds = [threshold]
    else:
        thresholds = np.unique(np.quantile(weights, np.linspace(0.5, 1, _THRESHOLDS + 1)))[::-1].tolist()
    found, chosen, best = None, float("inf"), float("inf")
    for tau in thresholds:
        kept = weights <= tau
        estimate = _mean(expected + np.where(kept, weights, 0.0) * residual, decisions)
        cost = estimate.error**2 + (largest * float(np.where(kept, 0.0, weights).mean())) ** 2
        if found is None or cost < best:
            found, best = estimate, cost
            chosen = float("inf") if kept.all() else float(tau)
    assert found is not None
    return found, chosen


def difference(estimate: Estimate, baseline: Estimate, decisions: Decisions) -> Estimate:
    """Return the difference of two estimates from the same log, with an interval that knows that they depend on each other."""
    contributions = estimate.contributions - baseline.contributions
    return Estimate.of(estimate.value - baseline.value, contributions, decisions.cluster)


def _mean(values: NDArray[np.float64], decisions: Decisions) -> Estimate:
    value = float(values.mean())
    return Estimate.of(value, values - value, decisions.cluster)


def _residuals(decisions: Decisions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if decisions.expected is None or decisions.expected_shown is None:
        raise InputError(
            "expected: found no reward model, expected the model's values of the target policy and of the item that was shown"
        )
    return decisions.expected, decisions.reward - decisions.expected_shown
