"""The whole report of `deep-interest check`, line by line."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.log_warnings import BY_DAY, DAY, START

from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.inspection import inspect_log, report_lines, split_lines
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables

HISTORIES = pd.DataFrame(
    {"user": [1] * 6 + [2], "item": [1, 2, 3, 1, 2, 3, 1], "time": [*(START - 60 * np.arange(6)), START]}
)
LINES = """\
behaviors                                                               7
users with behaviors                                                    2
items                                                                   6
impressions                                                             5
users with impressions                                                  3
left out: broken line                                               1,234
behaviors out of time order in the source (they are sorted)             5
click-through rate                                                  40.0%
impressions with a history                                          80.0%
test impressions of users unknown to training                      100.0%
test impressions of items unknown to training                        0.0%

from 2022-01-07 23:55:00 to 2022-01-11 00:00:00 (UTC)

       day      split rows    ctr
2022-01-08      train    1 1.0000
2022-01-09      empty    0 0.0000
2022-01-10 validation    2 0.5000
2022-01-11       test    2 0.0000

behaviours before an impression
       0             1  ████████████████████
     1-4             2  ████████████████████████████████████████
     5-9             2  ████████████████████████████████████████
   10-19             0  .
   20-49             0  .
   50-99             0  .
    100+             0  .

warning: first
warning: second"""
CATALOGUE_LINES = """\
behaviors                                                               7
users with behaviors                                                    2
items                                                                   6
behaviors out of time order in the source (they are sorted)             5
samples whose history has behaviours of their own time               0.0%

from 2022-01-07 23:55:00 to 2022-01-08 00:00:00 (UTC)

behaviours of a user
       0             0  .
     1-4             1  ████████████████████████████████████████
     5-9             1  ████████████████████████████████████████
   10-19             0  .
   20-49             0  .
   50-99             0  .
    100+             0  ."""


def lines_of(found) -> list[str]:
    """The report's lines; a full stop marks the end of a line with trailing blanks."""
    return [line + "." * line.endswith(" ") for text in report_lines(found) for line in text.split("\n")]


def test_the_whole_report_of_a_log_with_impressions():
    shown = pd.DataFrame({
        "user": [1, 1, 2, 3, 2], "item": [1, 2, 1, 3, 2], "time": START + np.array([5, 2 * DAY, 2 * DAY + 7, 3 * DAY, 3 * DAY]),
        "label": np.array([1, 0, 1, 0, 0], np.int8),
    })  # fmt: skip
    tables = CanonicalTables(
        HISTORIES, pd.DataFrame({"item": range(1, 7)}), None, shown, {"broken line": 1234}
    )
    found = inspect_log(canonical(tables), BY_DAY, FeatureColumns(item=("item_id",)))
    assert lines_of(replace(found, warnings=("first", "second"))) == LINES.split("\n")


def test_the_whole_report_of_a_log_without_impressions():
    tables = canonical(CanonicalTables(HISTORIES, pd.DataFrame({"item": range(1, 7)})))
    protocol = ProtocolParameters(name="next_item", negative_pool="catalogue")
    found = inspect_log(tables, protocol, FeatureColumns(item=("item_id",)))
    assert lines_of(found) == CATALOGUE_LINES.split("\n")


def test_the_bars_of_the_histogram_end_where_their_names_say():
    rows = [
        (user, item, START)
        for user, n in enumerate((1, 4, 5, 9, 10, 19, 20, 49, 50, 99, 100, 130))
        for item in range(n)
    ]
    behaviors = pd.DataFrame(rows, columns=["user", "item", "time"])
    tables = canonical(CanonicalTables(behaviors, pd.DataFrame({"item": range(200)})))
    protocol = ProtocolParameters(name="next_item", negative_pool="catalogue")
    assert inspect_log(tables, protocol, FeatureColumns(item=("item_id",))).history_lengths == {
        "0": 0, "1-4": 2, "5-9": 2, "10-19": 2, "20-49": 2, "50-99": 2, "100+": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("last", "rows"), [(10_000, 3), (9_999, 10_000)])
def test_days_without_impressions_are_listed_in_up_to_ten_thousand_days(last, rows):
    shown = pd.DataFrame(
        {"user": [1, 2, 3], "item": 1, "time": np.array([0, 5, last]) * DAY, "label": [1, 0, 1]}
    )
    tables = canonical(CanonicalTables(HISTORIES, pd.DataFrame({"item": [1, 2, 3]}), None, shown))
    days = inspect_log(tables, BY_DAY, FeatureColumns(item=("item_id",))).days
    assert len(days) == rows
    assert days["day"].iloc[[0, -1]].tolist() == ["1970-01-01", str(np.datetime64(last, "D"))]
    assert days.loc[days["rows"] > 0, "split"].tolist() == ["train", "validation", "test"]


def test_the_counts_of_each_split_are_a_table():
    rows = {
        "split": ["train", "validation", "test", "all"], "rows": [12_345, 10, 8, 12_363], "positives": [6_172, 5, 4, 6_181],
        "users": [1_000, 5, 4, 1_009], "items": [70, 9, 8, 70], "mean_history": [3.456, 2.0, 0.0, 3.4], "max_history": [12, 3, 0, 12],
    }  # fmt: skip
    (table,) = split_lines(pd.DataFrame(rows))
    assert [line.split() for line in table.split("\n")] == [
        ["rows", "positives", "users", "items", "mean", "history", "max", "history"],
        ["train", "12,345", "6,172", "1,000", "70", "3.5", "12"],
        ["validation", "10", "5", "5", "9", "2.0", "3"],
        ["test", "8", "4", "4", "8", "0.0", "0"],
    ]
