"""Relative lift of a ratio with an interval over users: the delta method on the logarithm, with and without CUPED.

Users are the unit of assignment and come back, so an arm's ratio is that of two correlated means over users, ``R = mean(Y) / mean(X)``.
The delta method (Deng, Knoblich and Lu, "Applying the Delta Method in Metric Analytics", KDD 2018) replaces each user by the linear
contribution to ``log R``,

    l_i = (Y_i - mean(Y)) / mean(Y) - (X_i - mean(X)) / mean(X),      Var(log R) = Var(l) / n.

The interval of the lift is ``exp(D ± t sqrt(V)) - 1`` with ``D`` the difference of the logarithms of two arms and ``V`` the sum of their
variances. On the logarithm the interval is that of a ratio of ratios, always above -100 %, and swapping the arms turns it round.

CUPED (Deng, Xu, Kohavi and Walker, "Improving the Sensitivity of Online Controlled Experiments by Utilizing Pre-Experiment Data", WSDM
2013) subtracts what covariates from before the test explain:

    D' = D - theta' (mean(Z) of treated - mean(Z) of control),
    theta = (sum over arms of Var(Z) / n)^-1 (sum over arms of Cov(Z, l) / n),

where theta minimises the variance of the difference, also for unequal arms. Assignment cannot have changed ``Z``, so ``D'`` estimates the
same lift. As in a regression, the variance is divided by the degrees of freedom that the coefficients leave.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from deep_interest.abtest.metrics import METRICS, Metric
from deep_interest.abtest.moments import K, Moments
from deep_interest.errors import InputError

LEVEL = 0.05
NAN = float("nan")
_ROUNDING = 1e-14  # a variance of logarithms below this is rounding: all users have the same ratio


@dataclass(frozen=True)
class LogDifference:
    """Difference of the logarithms of a metric between two arms.

    Attributes:
        difference: ``log(treated) - log(control)``; NaN if the metric is 0 or undefined in an arm.
        variance: its variance over users.
        df: degrees of freedom of the variance (Welch and Satterthwaite).
    """

    difference: float
    variance: float
    df: float

    @property
    def is_defined(self) -> bool:
        """Whether there is a difference with a variance above rounding errors."""
        return bool(np.isfinite(self.difference) and self.variance > _ROUNDING)

    def lift(self, level: float = LEVEL) -> "Lift":
        """Return the relative lift with its interval of mass ``1 - level``."""
        if not self.is_defined:
            return Lift(float(np.expm1(self.difference)), NAN, NAN, NAN)
        error = self.variance**0.5
        half = float(stdtrit(self.df, 1 - level / 2)) * error
        p_value = float(2 * stdtr(self.df, -abs(self.difference) / error))
        return Lift.from_log(self.difference, half, p_value)


@dataclass(frozen=True)
class Lift:
    """Relative lift of a metric over the control.

    Attributes:
        lift: treated / control - 1; NaN if the metric is 0 or undefined in an arm.
        low, high: ends of the interval; NaN without one.
        p_value: two-sided p-value of "no difference"; NaN without one.
    """

    lift: float
    low: float
    high: float
    p_value: float

    @classmethod
    def from_log(cls, difference: float, half_width: float, p_value: float) -> "Lift":
        """Return the lift of a difference of logarithms with the half width of its interval."""
        low, middle, high = np.expm1([difference - half_width, difference, difference + half_width])
        return cls(float(middle), float(low), float(high), p_value)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def lift_of(
    treated: Moments, control: Moments, metric: str, *, cuped: bool = False, level: float = LEVEL
) -> Lift:
    """Return the relative lift of a metric with its interval over users.

    Args:
        treated: moments of the users of the one arm (`Moments.of`).
        control: moments of the users of the other.
        metric: key in `METRICS`.
        cuped: whether to subtract what the covariates explain.
        level: probability with which the interval misses the true lift, in (0, 1).

    Raises:
        InputError: unknown metric, CUPED without covariates, fewer than two users in an arm, or a level out of range.

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> impressions = random.poisson(20, (2, 5000))
        >>> clicks = random.binomial(impressions, [[0.06], [0.05]])
        >>> arms = [Moments.of(np.column_stack([x, y, 0 * x])) for x, y in zip(impressions, clicks)]
        >>> found = lift_of(arms[0], arms[1], "ctr")
        >>> print(f"{found.lift:+.1%} [{found.low:+.1%}, {found.high:+.1%}]")
        +20.2% [+15.9%, +24.6%]
    """
    if metric not in METRICS:
        raise InputError(f"metric: found {metric!r}, expected one of {', '.join(METRICS)}")
    if not 0 < level < 1:
        raise InputError(f"level: found {level}, expected a probability between 0 and 1, as 0.05")
    return log_difference(treated, control, METRICS[metric], cuped=cuped).lift(level)


def log_difference(
    treated: Moments, control: Moments, metric: Metric, *, cuped: bool = False
) -> LogDifference:
    """Return the difference of the logarithms of a metric between two arms, with its variance over users.

    Args:
        treated, control: moments of the arms.
        metric: the metric.
        cuped: whether to subtract what the covariates explain.

    Raises:
        InputError: CUPED without covariates or with too few users, or fewer than two users in an arm.
    """
    if min(treated.users, control.users) < 2:
        raise InputError(
            f"users: found {treated.users} and {control.users} users in the two arms, expected at least 2 in each: one user has no "
            "variance over users"
        )
    if cuped:
        _check_covariates(treated, control)
    arms = (treated, control)
    values = [arm.ratio(metric) for arm in arms]
    if not all(value > 0 for value in values):
        return LogDifference(NAN, NAN, NAN)
    gradients = [arm.gradient(metric) for arm in arms]
    difference = float(np.log(values[0] / values[1]))
    if cuped:
        theta = _theta(arms, gradients)
        difference -= float(theta @ (treated.mean[K:] - control.mean[K:]))
        for gradient in gradients:
            gradient[K:] = -theta
    remaining = treated.users + control.users - 2
    factor = remaining / (remaining - treated.covariates) if cuped else 1.0
    variances = [
        factor * float(gradient @ arm.covariance @ gradient) / arm.users
        for arm, gradient in zip(arms, gradients, strict=True)
    ]
    return LogDifference(difference, sum(variances), _df(variances, [arm.users for arm in arms]))


def _check_covariates(treated: Moments, control: Moments) -> None:
    if not min(treated.covariates, control.covariates):
        raise InputError(
            "cuped: the arms have no covariates from before the test; set cuped=False, or give the users' sums of a pre-period"
        )
    if treated.users + control.users - 2 <= treated.covariates:
        raise InputError(
            f"cuped: found {treated.users + control.users} users for {treated.covariates} covariates, expected more users than "
            "covariates; set cuped=False"
        )


def _theta(arms: tuple[Moments, Moments], gradients: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the coefficients of the covariates that minimise the variance of the difference of the arms."""
    of_covariates = sum(arm.covariance[K:, K:] / arm.users for arm in arms)
    with_outcome = sum(
        arm.covariance[K:] @ gradient / arm.users for arm, gradient in zip(arms, gradients, strict=True)
    )
    scale = np.sqrt(np.diag(of_covariates))
    scale[scale == 0] = 1
    scaled = np.linalg.pinv(of_covariates / np.outer(scale, scale), hermitian=True)
    return (scaled @ (with_outcome / scale)) / scale


def _df(variances: list[float], users: list[int]) -> float:
    total = sum(variances)
    if not total > 0:
        return NAN
    return total**2 / sum(part**2 / (n - 1) for part, n in zip(variances, users, strict=True))
