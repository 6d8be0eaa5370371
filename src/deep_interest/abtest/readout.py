"""The read-out of a test: every metric and arm compared with the control, by day and by days since the first exposure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from deep_interest.abtest.assignment import SampleRatio, sample_ratio
from deep_interest.abtest.duration import VarianceCurve, days_until, detectable_lift, fit_variance_curve
from deep_interest.abtest.lift import LEVEL, NAN, Lift, LogDifference, log_difference
from deep_interest.abtest.metrics import METRICS, QUANTITIES, Metric
from deep_interest.abtest.moments import Moments
from deep_interest.abtest.novelty import Slope, by_group, novelty_slope
from deep_interest.abtest.planned_looks import valid_on_planned_days
from deep_interest.abtest.sequential import always_valid
from deep_interest.abtest.user_days import UserDays
from deep_interest.errors import InputError
from deep_interest.evaluation.significance import holm

FEWEST_USERS = 30
"""Users with a numerator above 0 that each arm needs for an interval: below, sums are far from normal."""
_EPOCH = date(1970, 1, 1)
_INTERVAL = ("lift", "low", "high")


@dataclass(frozen=True)
class Readout:
    """Read-out of a test.

    Attributes:
        results: one row for each metric and arm other than the control; the columns are described in `docs/experiments.md`.
        by_day: one row for each metric, arm and day: the lift up to the day with its fixed-horizon and always-valid interval, and the
            lift on the day alone (``day_*``).
        by_tenure: one row for each metric, arm and number of days since a user's first exposure.
        checks: what the read-out rests on: users by arm, sample ratio, users in two arms, days.
    """

    results: pd.DataFrame
    by_day: pd.DataFrame
    by_tenure: pd.DataFrame
    checks: dict[str, Any]


@dataclass(frozen=True)
class _Comparison:
    """A metric of an arm compared with the control.

    Attributes:
        metric: key of the metric.
        arm: name of the arm.
        found: difference of the logarithms after each day, with CUPED if there is a pre-period.
        plain: the same without CUPED.
        always: lift after each day with its always-valid interval.
    """

    metric: str
    arm: str
    found: list[LogDifference]
    plain: list[LogDifference]
    always: list[Lift]


@dataclass(frozen=True)
class _Looks:
    """The looks at a test, one after each day.

    Attributes:
        days: number of days from the first one to each look, the first being 1.
        level: level of the always-valid intervals of one arm.
        expected_lift, planned_days: see `read_out`.
    """

    days: list[int]
    level: float
    expected_lift: float
    planned_days: int | None

    def intervals(self, found: Sequence[LogDifference]) -> list[Lift]:
        """Return the lift after each day with its always-valid interval."""
        if self.planned_days is None:
            return [always_valid(each, expected_lift=self.expected_lift, level=self.level) for each in found]
        return valid_on_planned_days(found, self.days, planned_days=self.planned_days, level=self.level)

    def days_until(self, curve: VarianceCurve, lift: float, each: _Comparison) -> float:
        """Return how many more days it takes until the always-valid interval finds a lift; planned looks keep their last boundary."""
        if self.planned_days is None:
            return days_until(curve, lift, level=self.level, always_valid_at=self.expected_lift)
        last, always = each.found[-1], each.always[-1]
        bound = (np.log1p(always.high) - last.difference) / last.variance**0.5
        return days_until(curve, lift, level=float(2 * ndtr(-bound)))


def read_out(
    log: UserDays, *, control: str, split: Mapping[str, float], expected_lift: float = 0.05, planned_days: int | None = None
) -> Readout:  # fmt: skip
    """Compare every arm of a test with the control.

    Args:
        log: the log; metrics of revenue are left out if it has no revenue.
        control: name of the control arm.
        split: planned share of the users by arm, in any unit.
        expected_lift: relative lift at which the always-valid interval is tightest, and for which the days are predicted.
        planned_days: days that the test is planned to run, for always-valid intervals that hold on these only, and are narrower.

    Raises:
        InputError: the control or an arm of the split is unknown, an arm has fewer than two users, or the test has run for longer than
            planned.
    """
    _check_arms(log, control, split)
    arms = [arm for arm in log.arm_names if arm != control]
    metrics = [key for key, metric in METRICS.items() if log.values[:, metric.y].any()]
    days = list(log.moments_by_day())
    names = [day for day, _ in days]
    level = LEVEL / len(
        arms
    )  # of the always-valid intervals and predictions; fixed-horizon p-values are corrected by Holm
    looks = _Looks([day - names[0] + 1 for day in names], level, expected_lift, planned_days)
    comparisons = [
        _compare([moments for _, moments in days], metric, arm, control, looks)
        for metric in metrics
        for arm in arms
    ]
    final = days[-1][1] if days else {}
    rows = [_row(log, each, final, control, looks) for each in comparisons]
    return Readout(
        _with_holm(pd.DataFrame(rows)),
        pd.concat([_days_of(log, each, control, names) for each in comparisons], ignore_index=True),
        pd.concat([_tenures_of(log, each, control) for each in comparisons], ignore_index=True),
        _checks(log, control, sample_ratio({arm: log.users_of(arm) for arm in split}, split)) | {"planned_days": planned_days},
    )  # fmt: skip


def _check_arms(log: UserDays, control: str, split: Mapping[str, float]) -> None:
    if set(split) != set(log.arm_names) or control not in split:
        raise InputError(
            f"control, split: found the control {control} and the arms {', '.join(split)}; the log has the arms {', '.join(log.arm_names)}"
        )
    users = {arm: log.users_of(arm) for arm in log.arm_names}
    if few := [arm for arm, count in users.items() if count < 2]:
        raise InputError(
            f"arm {few[0]} has {users[few[0]]} user(s), expected at least 2 in each arm to compare; the users by arm are "
            f"{', '.join(f'{arm} {count:,}' for arm, count in users.items())} (users in several arms are left out: {log.in_two_arms:,})"
        )
    if not log.values.any():
        raise InputError("the log has no impression, click or revenue")


def _compare(
    days: Sequence[Mapping[str, Moments]], metric: str, arm: str, control: str, looks: _Looks
) -> _Comparison:
    plain = [_difference(moments[arm], moments[control], METRICS[metric], cuped=False) for moments in days]
    cuped = [_difference(moments[arm], moments[control], METRICS[metric], cuped=True) for moments in days]
    return _Comparison(metric, arm, cuped, plain, looks.intervals(cuped))


def _difference(treated: Moments, control: Moments, metric: Metric, *, cuped: bool) -> LogDifference:
    """Return the difference, undefined for too few users; without covariates or many users it is not adjusted."""
    smaller = min(treated.users, control.users)
    if smaller < 2:
        return LogDifference(NAN, NAN, NAN)
    adjusted = cuped and treated.covariates > 0 and smaller >= 10 * treated.covariates
    return log_difference(treated, control, metric, cuped=adjusted)


def _row(
    log: UserDays, each: _Comparison, final: Mapping[str, Moments], control: str, looks: _Looks
) -> dict[str, Any]:
    metric = METRICS[each.metric]
    enough = _users_with(log, metric, each.arm) >= FEWEST_USERS <= _users_with(log, metric, control)
    found, plain = each.found[-1], each.plain[-1]
    fixed, always = found.lift(), each.always[-1]
    if not enough:
        fixed = always = Lift(fixed.lift, NAN, NAN, NAN)
    removed = 1 - found.variance / plain.variance if enough and found is not plain and found != plain else NAN
    slope = novelty_slope(log, metric, each.arm, control)
    row = {
        "metric": each.metric, "arm": each.arm, "control": control,
        "users": log.users_of(each.arm), "control_users": log.users_of(control),
        "value": final[each.arm].ratio(metric), "control_value": final[control].ratio(metric),
        **asdict(fixed),
        "always_low": always.low, "always_high": always.high,
        "plain_lift": float(np.expm1(plain.difference)), "plain_low": plain.lift().low if enough else NAN,
        "plain_high": plain.lift().high if enough else NAN, "variance_removed": removed,
    }  # fmt: skip
    row |= {f"slope_{field.name}": getattr(slope, field.name) for field in fields(Slope)}
    return row | _durations(each, fixed, looks, enough=enough)


def _durations(each: _Comparison, fixed: Lift, looks: _Looks, *, enough: bool) -> dict[str, float]:
    """Return what the test can find now, and the days until it finds the expected and the observed lift."""
    curve = fit_variance_curve([found.variance for found in each.found]) if enough else None
    row = {"detectable_lift": detectable_lift(each.found[-1].variance, level=looks.level) if enough else NAN}
    for name, lift in (("expected", looks.expected_lift), ("observed", fixed.lift)):
        row[f"days_{name}"] = NAN if curve is None else days_until(curve, lift, level=looks.level)
        row[f"days_always_{name}"] = NAN if curve is None else looks.days_until(curve, lift, each)
    return row


def _users_with(log: UserDays, metric: Metric, arm: str) -> int:
    """Return the number of users of an arm with a numerator above 0."""
    rows = (log.values[:, metric.y] > 0) & (log.arms[log.users] == log.arm_names.index(arm))
    return len(np.unique(log.users[rows]))


def _with_holm(results: pd.DataFrame) -> pd.DataFrame:
    """Insert the p-values after Holm's correction over the arms of each metric."""
    corrected = pd.Series(NAN, index=results.index)
    for _, group in results.groupby("metric", sort=False):
        tested = group["p_value"].dropna()
        if len(tested):
            corrected[tested.index] = holm(tested)
    results.insert(results.columns.get_loc("p_value") + 1, "p_holm", corrected)
    return results


def _days_of(log: UserDays, each: _Comparison, control: str, days: Sequence[int]) -> pd.DataFrame:
    fixed, always = [found.lift() for found in each.found], each.always
    series = by_group(log, METRICS[each.metric], each.arm, control)
    alone = pd.DataFrame(series.lifts(), index=series.groups, columns=[f"day_{name}" for name in _INTERVAL])
    table = pd.DataFrame({
        "metric": each.metric, "arm": each.arm, "day": [day_name(day) for day in days],
        "lift": [each.lift for each in fixed], "low": [each.low for each in fixed], "high": [each.high for each in fixed],
        "always_low": [each.low for each in always], "always_high": [each.high for each in always],
    })  # fmt: skip
    return table.join(alone.reindex(days).reset_index(drop=True))


def _tenures_of(log: UserDays, each: _Comparison, control: str) -> pd.DataFrame:
    series = by_group(log, METRICS[each.metric], each.arm, control, since_first=True)
    table = pd.DataFrame(series.lifts(), columns=list(_INTERVAL))
    table.insert(0, "days_since_first", series.groups)
    table.insert(0, "arm", each.arm)
    table.insert(0, "metric", each.metric)
    return table


def _checks(log: UserDays, control: str, ratio: SampleRatio) -> dict[str, Any]:
    sums = dict(zip(QUANTITIES, log.values.sum(axis=0).tolist(), strict=True))
    with_pre = None if log.pre_period is None else float(log.pre_period.any(axis=1).mean())
    return {
        "control": control, "users": ratio.users, "expected_users": ratio.expected,
        "sample_ratio_p": ratio.p_value, "is_as_planned": ratio.is_as_planned, "users_in_two_arms": log.in_two_arms,
        "first_day": day_name(log.all_days[0]), "last_day": day_name(log.all_days[-1]), "days": len(log.all_days),
        "sums": sums, "share_with_pre_period": with_pre,
    }  # fmt: skip


def day_name(day: int) -> str:
    """Return days since 1970-01-01 as a date, 2024-03-25."""
    return (_EPOCH + timedelta(days=int(day))).isoformat()
