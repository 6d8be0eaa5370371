"""What the test can find now, and how many more days a lift would take."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from deep_interest.abtest.lift import LEVEL, NAN
from deep_interest.abtest.sequential import half_width

POWER = 0.8
FEWEST_DAYS = 4  # for a variance curve
HORIZON = 10  # times the days so far: the farthest extrapolation


@dataclass(frozen=True)
class VarianceCurve:
    """How the variance of the difference of logarithms falls with the days of the test: ``V(t) = floor + falling / t``.

    With new users on every day the floor is 0. If the same users come back, more days say more about each of them, but not how others
    differ, so the variance has a floor. It is assumed that users go on to arrive and to come back as they did so far.

    Attributes:
        days: days of the test so far.
        floor: part of the variance that more days do not reduce.
        falling: part that falls with the number of days.
    """

    days: int
    floor: float
    falling: float

    def at(self, days: int) -> float:
        """Return the expected variance after a number of days in all."""
        return self.floor + self.falling / days


def fit_variance_curve(variances: Sequence[float]) -> VarianceCurve | None:
    """Fit the curve to the variances after 1, 2, … days by least squares of the relative errors.

    Args:
        variances: variance of the difference of logarithms up to each day; NaN where there is none.

    Returns:
        The curve, scaled to the last variance; None for fewer than four days with a variance, or none on the last day.
    """
    values = np.asarray(variances, float)
    days = len(values)
    known = np.flatnonzero(values > 0)
    if len(known) < FEWEST_DAYS or known[-1] != days - 1:
        return None
    y = values[known]
    floor, falling = nnls(np.column_stack([1 / y, 1 / ((known + 1) * y)]), np.ones(len(y)))[0]
    scale = y[-1] / (floor + falling / days)
    return VarianceCurve(days, float(scale * floor), float(scale * falling))


def detectable_lift(variance: float, *, level: float = LEVEL, power: float = POWER) -> float:
    """Return the smallest relative lift that a fixed-horizon test finds with a probability of ``power``.

    Args:
        variance: variance of the difference of logarithms.
        level: level of the test.
        power: probability with which the lift is found.
    """
    return float(np.expm1((ndtri(1 - level / 2) + ndtri(power)) * np.sqrt(variance)))


def days_until(
    curve: VarianceCurve,
    lift: float,
    *,
    level: float = LEVEL,
    power: float = POWER,
    always_valid_at: float | None = None,
) -> float:
    """Return how many more days the test needs to find a lift.

    Args:
        curve: how the variance falls.
        lift: true relative lift, positive or negative, above -1.
        level: level of the test.
        power: probability with which the lift is found.
        always_valid_at: expected lift of the always-valid interval that is to exclude 0; None for the fixed-horizon interval.

    Returns:
        Days from now on, 0 if those so far are enough; infinite if ten times the days so far are not enough; NaN without a lift.
    """
    effect = abs(np.log1p(lift))
    if not (np.isfinite(effect) and effect > 0):
        return NAN
    for days in range(curve.days, HORIZON * curve.days + 1):
        variance = curve.at(days)
        error = variance**0.5
        half = (
            float(ndtri(1 - level / 2)) * error
            if always_valid_at is None
            else half_width(variance, always_valid_at, level)
        )
        if effect >= half + float(ndtri(power)) * error:
            return days - curve.days
    return float("inf")
