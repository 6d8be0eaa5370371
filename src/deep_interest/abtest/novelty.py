"""Does the lift change with time? Lifts by day and by days since a user's first exposure, and a test of the slope."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from deep_interest.abtest.lift import LEVEL, NAN
from deep_interest.abtest.metrics import Metric
from deep_interest.abtest.user_days import UserDays

FEWEST = 30
"""Users with a numerator above 0 that each arm needs for a lift on a single day."""


@dataclass(frozen=True)
class Series:
    """Difference of the logarithms of a metric by day, or by days since the first exposure.

    Attributes:
        groups: ``(G,)`` days in order; only those on which each arm has enough users.
        difference: ``(G,)`` differences of the logarithms.
        variance: ``(G,)`` their variances over users.
    """

    groups: NDArray[np.int64]
    difference: NDArray[np.float64]
    variance: NDArray[np.float64]

    def lifts(self, level: float = LEVEL) -> NDArray[np.float64]:
        """Return lift, low and high end of the interval of each group ``(G, 3)``."""
        half = ndtri(1 - level / 2) * np.sqrt(self.variance)
        return np.expm1(np.column_stack([self.difference, self.difference - half, self.difference + half]))


@dataclass(frozen=True)
class Slope:
    """Change of the lift with the days since a user's first exposure.

    Attributes:
        per_day: change of the logarithm of treated / control per day; NaN if fewer than three days have enough users.
        low, high: ends of its interval.
        p_value: two-sided p-value of "the lift does not change".
        first, last: the relative lift that the line has on the first and on the last of these days.
        last_day: the last of these days; 0 is the day of the first exposure.
    """

    per_day: float
    low: float
    high: float
    p_value: float
    first: float
    last: float
    last_day: int


@dataclass(frozen=True)
class _Arm:
    """Rows of the users of one arm.

    Attributes:
        users: ``(n,)`` user of each row, from 0.
        group: ``(n,)`` group of each row, from 0.
        y, x: ``(n,)`` numerator and denominator of each row.
        end: ``(U,)`` number of groups, from the first one, in which each user counts in the denominator without having rows;
            None for ratios of two quantities.
    """

    users: NDArray[np.intp]
    group: NDArray[np.int64]
    y: NDArray[np.float64]
    x: NDArray[np.float64]
    end: NDArray[np.int64] | None


def by_group(
    log: UserDays, metric: Metric, treated: str, control: str, *, since_first: bool = False
) -> Series:
    """Return the lift on each day alone, or for each number of days since a user's first exposure.

    Args:
        log: the log.
        metric: the metric. By day, metrics per user count the users who were active on the day; since the first exposure, all users
            whom the test has had the time to see.
        treated, control: names of the arms.
        since_first: whether to group by the days since a user's first exposure instead of by day.
    """
    arms, offset = _arms(log, metric, (treated, control), since_first=since_first)
    groups = _groups(arms)
    parts = [_log_ratios(arm, groups) for arm in arms]
    return Series(groups + offset, parts[0][0] - parts[1][0], parts[0][1] + parts[1][1])


def novelty_slope(
    log: UserDays, metric: Metric, treated: str, control: str, *, level: float = LEVEL
) -> Slope:
    """Test whether the lift changes with the days since a user's first exposure.

    The slope is that of a weighted line through the differences of the logarithms by days since the first exposure, weighted by the
    number of users with a numerator above 0. Its variance adds up each user's contributions to all days, so that users who come back do
    not count as independent.

    Args:
        log: the log.
        metric: the metric.
        treated, control: names of the arms.
        level: probability with which the interval misses the slope.
    """
    arms, _ = _arms(log, metric, (treated, control), since_first=True)
    groups = _groups(arms)
    if len(groups) < 3:
        return Slope(NAN, NAN, NAN, NAN, NAN, NAN, int(groups.max(initial=0)))
    counts = np.sum([_users_with(arm, groups[-1] + 1) for arm in arms], axis=0)[groups].astype(float)
    centre = float(np.average(groups, weights=counts))
    weights = counts * (groups - centre)
    weights = weights / (weights @ groups)
    differences = [_log_ratios(arm, groups)[0] for arm in arms]
    difference = differences[0] - differences[1]
    per_day = float(weights @ difference)
    variance = sum(float((_contributions(arm, groups, weights) ** 2).sum()) for arm in arms)
    middle = float(np.average(difference, weights=counts))
    first, last = np.expm1(middle + per_day * (groups[[0, -1]] - centre))
    error, half = variance**0.5, float(ndtri(1 - level / 2)) * variance**0.5
    p_value = float(2 * ndtr(-abs(per_day) / error)) if error else NAN
    return Slope(per_day, per_day - half, per_day + half, p_value, float(first), float(last), int(groups[-1]))


def _arms(
    log: UserDays, metric: Metric, names: tuple[str, str], *, since_first: bool
) -> tuple[tuple[_Arm, _Arm], int]:
    """Return the rows of both arms, and the day of group 0."""
    offset = 0 if since_first else log.all_days[0]
    group = log.days - (log.first_day[log.users] if since_first else offset)
    x = np.ones(len(group)) if metric.x is None else log.values[:, metric.x]
    end = log.all_days[-1] - log.first_day + 1 if since_first and metric.x is None else None

    def arm(name: str) -> _Arm:
        members = log.arms == log.arm_names.index(name)
        rows = members[log.users]
        code = np.cumsum(members) - 1
        return _Arm(
            code[log.users[rows]], group[rows], log.values[rows, metric.y], x[rows], None if end is None else end[members],
        )  # fmt: skip

    return (arm(names[0]), arm(names[1])), offset


def _groups(arms: tuple[_Arm, _Arm]) -> NDArray[np.int64]:
    """Return the groups in which each arm has enough users with a numerator above 0."""
    length = max(int(arm.group.max(initial=0)) for arm in arms) + 1
    counts = [_users_with(arm, length) for arm in arms]
    return np.flatnonzero(np.minimum(*counts) >= FEWEST)


def _users_with(arm: _Arm, length: int) -> NDArray[np.intp]:
    """Return the number of users of each group with a numerator above 0."""
    return np.bincount(arm.group[arm.y > 0], minlength=length)


def _sums(arm: _Arm, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return numerator and denominator of each group, and the number of users without a row in the denominator."""
    y = np.bincount(arm.group, arm.y, length).astype(float)
    x = np.bincount(arm.group, arm.x, length).astype(float)
    if arm.end is None:
        return y, x, np.zeros(length)
    eligible = np.bincount(arm.end, minlength=length + 1)[::-1].cumsum()[::-1][1 : length + 1]
    return y, eligible.astype(float), eligible - np.bincount(arm.group, minlength=length)


def _log_ratios(arm: _Arm, groups: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logarithm of the metric in each group, and its variance by the delta method over users."""
    length = int(max(arm.group.max(initial=0), groups.max(initial=0))) + 1
    y, x, absent = _sums(arm, length)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = arm.y / y[arm.group] - arm.x / x[arm.group]
        variance = np.bincount(arm.group, np.nan_to_num(rows) ** 2, length) + absent / x**2
        return np.log(y / x)[groups], variance[groups]


def _contributions(arm: _Arm, groups: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each user's contribution ``(U,)`` to the weighted sum of the logarithms of the groups."""
    length = int(max(arm.group.max(initial=0), groups.max(initial=0))) + 1
    y, x, _ = _sums(arm, length)
    of_y, of_x = np.zeros(length), np.zeros(length)
    of_y[groups], of_x[groups] = weights / y[groups], weights / x[groups]
    users = int(arm.users.max(initial=-1)) + 1
    if arm.end is None:
        rows = of_y[arm.group] * arm.y - of_x[arm.group] * arm.x
        return np.bincount(arm.users, rows, users).astype(float)
    cumulative = np.concatenate([[0.0], of_x.cumsum()])
    return np.bincount(arm.users, of_y[arm.group] * arm.y, users) - cumulative[np.minimum(arm.end, length)]
