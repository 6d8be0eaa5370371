"""Intervals that are valid at every look: a mixture sequential probability ratio test on the logarithm of the lift.

A fixed-horizon interval is valid on one day that was chosen before the test. Its error grows with each further look. The always-valid
interval (Johari, Koomen, Pekelis and Walsh, "Peeking at A/B Tests", KDD 2017, eq. 14; Robbins' normal mixture, as in the asymptotic
confidence sequences of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2024) covers the true lift on all days at once with probability
``1 - level``:

    D ± sqrt( V (V + tau²) / tau² · log( (V + tau²) / (V level²) ) )

``D`` is the difference of the logarithms of all sums up to the day and ``V`` its variance over users up to that day, so that users who
come back are counted once. ``tau`` is the lift at which the interval is tightest; it must not depend on the data.

The guarantee is asymptotic in the users, and exact for a process with independent increments in 1/V. Users who come back violate that to
a degree. Whatever the dependence between the days, the interval is never narrower than ``D ± 3.04 sqrt(V)`` at the level 5 %, which a
single look without a difference exceeds with a probability of 0.24 %: by the union bound, 20 daily looks stay below 5 % and 28 below 7 %.
`benchmarks/abtest_levels.py` measures the level.
"""

import math

import numpy as np

from deep_interest.abtest.lift import LEVEL, Lift, LogDifference
from deep_interest.errors import InputError


def always_valid(found: LogDifference, *, expected_lift: float, level: float = LEVEL) -> Lift:
    """Return the lift with its always-valid interval and p-value.

    Args:
        found: difference of the logarithms up to one day (`log_difference`).
        expected_lift: relative lift at which the interval is tightest, fixed before the test, such as 0.05.
        level: probability with which the interval misses the true lift on any day, in (0, 1).

    Returns:
        The lift of the day. The p-value is that of the day; the smallest one of all days is valid at every look.

    Raises:
        InputError: ``expected_lift`` is not above 0, or the level is out of range.

    Example:
        >>> found = LogDifference(difference=0.05, variance=0.01**2, df=2000)
        >>> shown = always_valid(found, expected_lift=0.05)
        >>> print(f"{shown.lift:+.1%} [{shown.low:+.1%}, {shown.high:+.1%}]")
        +5.1% [+1.9%, +8.4%]
    """
    if not (expected_lift > 0 and math.isfinite(expected_lift)):
        raise InputError(f"expected_lift: found {expected_lift}, expected a relative lift above 0, as 0.05")
    if not 0 < level < 1:
        raise InputError(f"level: found {level}, expected a probability between 0 and 1, as 0.05")
    if not found.is_defined:
        return found.lift(level)
    half = half_width(found.variance, expected_lift, level)
    return Lift.from_log(found.difference, half, always_valid_p(found, expected_lift=expected_lift))


def half_width(variance: float, expected_lift: float, level: float) -> float:
    """Return half of the width of the always-valid interval of the difference of logarithms."""
    tau2 = math.log1p(expected_lift) ** 2
    ratio = (variance + tau2) / variance
    return math.sqrt(variance * (variance + tau2) / tau2 * math.log(ratio / level**2))


def always_valid_p(found: LogDifference, *, expected_lift: float) -> float:
    """Return the always-valid p-value of "no difference": one over the likelihood ratio of the mixture, at most 1."""
    tau2, variance = math.log1p(expected_lift) ** 2, found.variance
    exponent = tau2 * found.difference**2 / (2 * variance * (variance + tau2))
    return float(min(1.0, np.exp(0.5 * math.log((variance + tau2) / variance) - exponent)))
