"""Warnings about an incomplete last day and about times that are whole days, at and around their bounds."""

from datetime import date

import numpy as np
import pandas as pd
import pytest
from support.log_warnings import DAY, HOUR, OTHER, START, quiet, shown_at, warnings_of

from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.inspection import inspect_log, report_lines
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.suspicious_times import incomplete_last_day
from deep_interest.logs.tables import CanonicalTables

BY_DAY = ProtocolParameters(name="by_day")


def last_day_of(counts: list[int], protocol: ProtocolParameters = BY_DAY) -> list[str]:
    """Warnings about impressions with these counts per day from 2022-01-08 on."""
    return list(incomplete_last_day(pd.DataFrame({"time": START + np.repeat(np.arange(len(counts)) * DAY, counts)}), protocol))  # fmt: skip


def test_a_last_day_below_three_tenths_of_the_median_is_warned_about():
    assert last_day_of([77_000, 90_000, 60_000, 3_221]) == [
        "the last day, 2022-01-11, has 3,221 impressions, the median of the other days is 77,000: is it incomplete? It belongs to "
        "the test set; to leave it out, set protocol.last_day: 2022-01-10"
    ]
    assert len(last_day_of([100, 100, 100, 29])) == 1


@pytest.mark.parametrize(
    "counts", [[100, 100, 100, 30], [100, 100, 29], [1, 100, 100, 100], [100, 10, 10, 5]]
)
def test_a_usual_last_day_or_a_short_log_is_not_warned_about(counts):
    assert last_day_of(counts) == []


def test_the_last_day_is_the_last_one_in_use():
    protocol = ProtocolParameters(name="by_day", last_day=date(2022, 1, 11))
    assert last_day_of([100, 100, 100, 100, 5], protocol) == []
    (warning,) = last_day_of([100, 100, 100, 5, 100], protocol)
    assert warning.startswith("the last day, 2022-01-11, has 5 impressions")
    assert warning.endswith("set protocol.last_day: 2022-01-10")


def test_the_inspection_warns_about_the_last_day():
    behaviors, shown = quiet()
    shown = shown_at(START + np.r_[np.arange(59) * 4 * DAY // 59, 4 * DAY + HOUR], users=np.arange(60) // 2)
    (warning,) = warnings_of(behaviors, shown)
    assert warning.startswith(
        "the last day, 2022-01-12, has 1 impressions, the median of the other days is 15"
    )


def midnights(shown: pd.DataFrame) -> pd.DataFrame:
    return shown.assign(time=shown["time"] // DAY * DAY)


def test_impressions_or_behaviours_with_times_of_whole_days_are_warned_about():
    """Behaviours of 20 users on three days; their impressions are two hours or a day after the first."""
    days = START + np.arange(60) % 3 * DAY
    users = np.arange(60) // 3
    behaviors = pd.DataFrame({"user": users, "item": OTHER + np.arange(60), "time": days - DAY})
    shown = shown_at(days + 2 * HOUR + np.arange(60), users=users)
    (future,) = warnings_of(behaviors, shown)
    assert future.startswith("the times of the behaviors are whole days, those of the impressions are not")
    (own_day,) = warnings_of(behaviors.assign(time=days - DAY + np.arange(60)), midnights(shown))
    assert own_day.startswith("the times of the impressions are whole days: no history")
    (both,) = warnings_of(behaviors, midnights(shown))
    assert both.startswith("the times of behaviors and impressions are whole days")


def next_item(times, *, ties="before"):
    """Warnings about the behaviours of ten users at these times."""
    behaviors = pd.DataFrame(
        {"user": np.repeat(np.arange(10), len(times)), "item": np.arange(10 * len(times)), "time": np.tile(times, 10)}
    )  # fmt: skip
    tables = canonical(CanonicalTables(behaviors, pd.DataFrame({"item": range(1_000)})))
    protocol = ProtocolParameters(name="next_item", negative_pool="catalogue", ties=ties)
    return inspect_log(tables, protocol, FeatureColumns(item=("item_id",))).warnings


@pytest.mark.parametrize("ticks", [1, 1_000])
def test_behaviours_in_random_order_within_a_day_are_warned_about(ticks):
    """Five behaviours of each user, two on the third day: of the four targets, one has a behaviour of its own day."""
    winter, summer = 0, -HOUR  # local midnights before and after the clocks change
    times = START + np.array([winter, DAY, 2 * DAY + summer, 2 * DAY + summer, 3 * DAY + summer])
    (warning,) = next_item(times * ticks)
    assert warning == (
        "the times of the behaviors are whole days: within a day their order is random, and 25.0% of the samples have behaviours of "
        "their own day in the history; protocol.ties: exclude leaves those out"
    )
    assert next_item(times * ticks, ties="exclude") == ()
    assert next_item((times + np.array([0, 7, 9, 9, 0])) * ticks) == ()
    assert next_item(START + np.array([0, 0, DAY, DAY]) * ticks) == ()  # two days only


def test_a_log_without_times_is_described_without_times():
    behaviors = pd.DataFrame({"user": [1, 1, 1, 1, 2, 2, 2], "item": range(7), "time": range(7)})
    tables = canonical(CanonicalTables(behaviors, pd.DataFrame({"item": range(50)})))
    protocol = ProtocolParameters(name="next_item", negative_pool="catalogue")
    found = inspect_log(tables, protocol, FeatureColumns(item=("item_id",)), has_times=False)
    assert (found.period, found.shares, found.warnings) == (None, {}, ())
    assert "no times: the rows of the files are in order" in report_lines(found)
