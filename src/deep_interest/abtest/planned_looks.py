"""Intervals that are valid at every look of a test whose length is planned: a group-sequential design with error spending.

The always-valid interval (`abtest.sequential`) is valid for any number of looks, and pays for looks that a test of four weeks never takes. If
the last day is planned, the error can be spent on the planned days alone. After a share ``t`` of them,

    level · log(1 + (e - 1) t)

of it is spent (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983; the spending function of Pocock's
boundaries). At each look, the boundary ``c`` of ``|D| / sqrt(V)`` is the one that is first exceeded at this look with the probability that
is newly spent; ``D ± c sqrt(V)`` are repeated confidence intervals (Jennison and Turnbull 1989), which cover the true lift on all planned
days at once with probability ``1 - level``.

The probabilities are those of sums with independent increments, whose information is ``1 / V``. Users who come back violate that to a
degree; `benchmarks/abtest_levels.py` measures the level.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit

from deep_interest.abtest.lift import LEVEL, Lift, LogDifference
from deep_interest.errors import InputError

_LEAST_NEW_INFORMATION = 1e-3  # share of a look's information below which it counts as the same look
_WIDEST = 8.0


def spent_error(share: float, level: float = LEVEL) -> float:
    """Return the error that may be spent after a share of the planned days, in [0, 1]."""
    return level * float(np.log1p((np.e - 1) * min(max(share, 0.0), 1.0)))


def boundaries(information: Sequence[float], spent: Sequence[float]) -> list[float]:
    """Return the boundary of the standardised difference at each look.

    Args:
        information: ``1 / V`` at each look; where it does not grow, a look counts as the same one as the last.
        spent: error that may be spent up to each look, not falling.

    Returns:
        ``c`` at each look: without a difference, ``|D| / sqrt(V)`` is above it at any of the first looks with probability ``spent``.

    Example:
        >>> looks = [0.2, 0.4, 0.6, 0.8, 1.0]  # the boundaries of five looks in Lan and DeMets (1983)
        >>> " ".join(f"{c:.2f}" for c in boundaries(looks, [spent_error(share) for share in looks]))
        '2.44 2.43 2.41 2.40 2.39'
    """
    found: list[float] = []
    points, density = np.zeros(1), np.ones(1)  # of the sum before the look, of paths that have not crossed
    unit_nodes, weights = _gauss_legendre()
    last, used = 0.0, 0.0
    for amount, total in zip(information, spent, strict=True):
        new = amount - last
        if not new > _LEAST_NEW_INFORMATION * amount:
            found.append(found[-1] if found else _WIDEST)
            continue
        deviation, bound = np.sqrt(new), _WIDEST * np.sqrt(amount)
        wanted = total - used
        if wanted > _crossing(bound, points, density, deviation):
            bound = brentq(_excess, 0.0, bound, args=(points, density, deviation, wanted), xtol=1e-10)
            used = total
        found.append(float(bound / np.sqrt(amount)))
        nodes = bound * unit_nodes
        kernel = np.exp(-(((nodes[:, None] - points) / deviation) ** 2) / 2) / (
            deviation * np.sqrt(2 * np.pi)
        )
        points, density, last = nodes, bound * weights * (kernel @ density), amount
    return found


@cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of the quadrature over [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return nodes, weights


def _crossing(
    bound: float, points: NDArray[np.float64], density: NDArray[np.float64], deviation: float
) -> float:
    """Return the probability that the sum leaves ``[-bound, bound]`` at this look, and not before."""
    outside = ndtr((-bound - points) / deviation) + ndtr((points - bound) / deviation)
    return float(density @ outside)


def _excess(
    bound: float, points: NDArray[np.float64], density: NDArray[np.float64], deviation: float, wanted: float
) -> float:
    return _crossing(bound, points, density, deviation) - wanted


def valid_on_planned_days(
    found: Sequence[LogDifference], days: Sequence[int], *, planned_days: int, level: float = LEVEL
) -> list[Lift]:
    """Return the lift after each day with an interval that is valid on all planned days at once.

    Args:
        found: difference of the logarithms up to each day (`log_difference`).
        days: number of days from the first day of the test to each of these, the first being 1.
        planned_days: days that the test is planned to run.
        level: probability with which any of the intervals misses the true lift.

    Returns:
        The lifts. The p-value is that of a single look.

    Raises:
        InputError: the test has run for longer than planned.
    """
    if days and days[-1] > planned_days:
        raise InputError(
            f"planned_days: found {planned_days}, but the log has {days[-1]} days; an interval for planned days does not hold on later ones: "
            "remove the later days from the log, or planned_days from the block"
        )
    defined = [index for index, each in enumerate(found) if each.is_defined]
    information = [1 / found[index].variance for index in defined]
    spent = [spent_error(days[index] / planned_days, level) for index in defined]
    result = [each.lift(level) for each in found]
    for index, bound in zip(defined, boundaries(information, spent), strict=True):
        each = found[index]
        widened = bound * _heavier_tails(each, bound)
        result[index] = Lift.from_log(each.difference, widened * each.variance**0.5, result[index].p_value)
    return result


def _heavier_tails(each: LogDifference, bound: float) -> float:
    """Return the ratio of the quantile of Student's t to that of the normal distribution, at the level of a boundary."""
    tail = float(ndtr(-bound))
    return float(stdtrit(each.df, 1 - tail) / ndtri(1 - tail))
