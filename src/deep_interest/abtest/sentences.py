"""The verdict on each metric and arm in a sentence, and notes on what the read-out rests on."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from deep_interest.abtest.assignment import THRESHOLD
from deep_interest.abtest.duration import HORIZON
from deep_interest.abtest.lift import LEVEL
from deep_interest.abtest.metrics import METRICS
from deep_interest.abtest.readout import FEWEST_USERS

FADING_LEVEL = 0.01  # of the test of the slope, as there is one for each metric
MOST_IN_TWO_ARMS = 0.01  # share of the users from which they are a warning


def verdict(row: Mapping[str, Any], *, expected_lift: float) -> str:
    """Return the verdict on one metric of an arm.

    Args:
        row: row of `Readout.results`.
        expected_lift: relative lift for which the days are predicted.
    """
    name, arm, control = METRICS[row["metric"]].name, row["arm"], row["control"]
    if pd.isna(row["lift"]):
        return f"{name}: the lift of {arm} is not defined, because the metric is 0 in an arm."
    if pd.isna(row["low"]):
        return (
            f"{name}: {arm} has {percent(row['lift'])} compared with {control}, without an interval: an arm has fewer than {FEWEST_USERS} users "
            f"with {METRICS[row['metric']].numerator}."
        )
    direction = "higher" if row["lift"] > 0 else "lower"
    size = f"{abs(row['lift']):.1%} {direction} with {arm} than with {control}"
    fixed = f"[{percent(row['low'])}, {percent(row['high'])}]"
    always = f"[{percent(row['always_low'])}, {percent(row['always_high'])}]"
    if row["always_low"] > 0 or row["always_high"] < 0:
        return f"{name} is {size}; the always-valid interval {always} excludes 0, so the test can stop now."
    observed = f"a lift of {percent(row['lift'])}"
    if row["p_holm"] < LEVEL:
        return (
            f"{name} is {size} {fixed}, significant only if this day was planned as the last one; the always-valid interval {always} "
            f"includes 0. {_more(row['days_always_observed'], observed, 'always-valid interval')}"
        )
    expected = f"a lift of {percent(expected_lift)}"
    return (
        f"{name}: no significant difference; the lift of {arm} over {control} is {percent(row['lift'])} {fixed}. The test finds a lift of "
        f"{percent(row['detectable_lift'])} with a probability of 80 %. "
        f"{_more(row['days_expected'], expected, 'fixed-horizon interval')}"
    )


def fading(row: Mapping[str, Any]) -> str | None:
    """Return a sentence on a lift that changes with the days since users' first exposure; None if it does not significantly."""
    if not row["slope_p_value"] < FADING_LEVEL:
        return None
    return (
        f"{METRICS[row['metric']].name}: the lift of {row['arm']} changes with the days since a user's first exposure, from "
        f"{percent(row['slope_first'])} on the first day to {percent(row['slope_last'])} after {row['slope_last_day']} days "
        f"(p = {row['slope_p_value']:.2g}); the average over the test is not what a long-time user sees."
    )


def warnings_of(checks: Mapping[str, Any]) -> list[str]:
    """Return what makes the result doubtful.

    Args:
        checks: `Readout.checks`.
    """
    found = []
    if not checks["is_as_planned"]:
        users = ", ".join(f"{arm} {count:,}" for arm, count in checks["users"].items())
        expected = ", ".join(f"{arm} {count:,.0f}" for arm, count in checks["expected_users"].items())
        found.append(
            f"Sample ratio mismatch: the arms have {users} users, the split expects {expected} (p = {checks['sample_ratio_p']:.1g}, below "
            f"{THRESHOLD}). Something decides which users are seen in which arm; do not use the result before its cause is found."
        )
    total = sum(checks["users"].values()) + checks["users_in_two_arms"]
    if checks["users_in_two_arms"] > MOST_IN_TWO_ARMS * total:
        found.append(
            f"{checks['users_in_two_arms']:,} users ({checks['users_in_two_arms'] / total:.1%}) were seen in more than one arm and are left "
            "out; check that the arm is a function of the user."
        )
    return found


def notes_of(checks: Mapping[str, Any], left_out: Mapping[str, int]) -> list[str]:
    """Return what the read-out rests on.

    Args:
        checks: `Readout.checks`.
        left_out: number of skipped rows by reason.
    """
    users = ", ".join(f"{arm} {count:,}" for arm, count in checks["users"].items())
    notes = [
        f"{checks['days']} days, from {checks['first_day']} to {checks['last_day']}; users: {users}.",
        f"Sample ratio: p = {checks['sample_ratio_p']:.2g} (a mismatch is reported below {THRESHOLD}).",
        f"{checks['users_in_two_arms']:,} users in more than one arm are left out.",
    ]
    if checks["planned_days"] is not None:
        notes.append(
            f"The always-valid interval holds on each of the {checks['planned_days']} planned days at once."
        )
    share = checks["share_with_pre_period"]
    if share is None:
        notes.append(
            "Without a pre-period there is no variance reduction (CUPED): set start, or source.pre_period."
        )
    else:
        notes.append(f"CUPED uses a pre-period, which {share:.0%} of the users have.")
    return notes + [f"Left out: {rows:,} {reason}." for reason, rows in left_out.items()]


def percent(value: float) -> str:
    """Return a relative lift as +1.2 %."""
    return f"{value:+.1%}"


def _more(days: float, lift: str, interval: str) -> str:
    """Return how many more days a lift takes."""
    if pd.isna(days):
        return "After four days, the read-out predicts how many more it takes."
    if days == float("inf"):
        return f"For {lift}, {HORIZON} times the days so far are not enough ({interval}, power 80 %)."
    if days == 0:
        return f"For {lift}, the days so far are enough ({interval}, power 80 %)."
    return (
        f"For {lift}, it takes about {days:.0f} more day{'s' if days > 1 else ''} ({interval}, power 80 %)."
    )
