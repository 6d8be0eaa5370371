"""What the test can find now, and how many more days a lift would take."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from deep_interest.abtest.lift import LEVEL, NAN
from deep_interest.abtest.sequential import half_width

POWER = 0.8
FEWEST_DAYS = 4  # for a variance curve
HORIZON = 10  # times the days so far: the farthest extrapolation


@dataclass(frozen=True)
class VarianceCurve:
    """How the variance of the difference of logarithms falls with the days of the test.

    ``V(t) = V(T) (t / T)^-exponent``. It is assumed that the variance keeps falling as over the last half of the days: users arrive
    and come back at the rates that these days show. With new users only, the exponent is 1; if the same users come back, it is lower.

    Attributes:
        days: days of the test so far, T.
        variance: variance after these days.
        exponent: from 0 to 1.
    """

    days: int
    variance: float
    exponent: float

    def at(self, days: int) -> float:
        """Return the expected variance after a number of days in all."""
        return self.variance * (days / self.days) ** -self.exponent


def fit_variance_curve(variances: Sequence[float]) -> VarianceCurve | None:
    """Fit the curve to the variances after 1, 2, … days.

    Args:
        variances: variance of the difference of logarithms up to each day; NaN where there is none.

    Returns:
        The curve, through the last variance; None for fewer than four days, or without a variance on the last half of them.
    """
    values = np.asarray(variances, float)
    days = len(values)
    if days < FEWEST_DAYS:
        return None
    half = slice(days - max(3, (days + 1) // 2), None)
    x, y = np.log(np.arange(1, days + 1)[half]), values[half]
    if not (y > 0).all():
        return None
    slope = np.polyfit(x - x[-1], np.log(y) - np.log(y[-1]), 1)[0]
    return VarianceCurve(days, float(values[-1]), float(np.clip(-slope, 0, 1)))


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
