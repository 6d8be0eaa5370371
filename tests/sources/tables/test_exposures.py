"""The log of an A/B test: sums by user, arm and day from any layout, and messages for invalid rows."""

from datetime import date

import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.sources.tables.exposure_declaration import ExposureSource
from deep_interest.sources.tables.exposures import read_exposures

ARMS = ["base", "din"]
DAY = (date(2024, 3, 25) - date(1970, 1, 1)).days
SUMS = """day,user,arm,shown,clicks,paid
2024-03-25,a,base,10,2,1.5
2024-03-25,b,din,4,0,
2024-03-26,a,base,5,1,2
2024-03-26,a,base,1,1,0.25
"""
COLUMNS = {"day": "day", "impressions": "shown", "revenue": "paid"}


def read(folder, text: str, declared: dict | None = None, *, pre_period: dict | None = None, **options):
    (folder / "log.csv").write_text(text)
    source = {
        "time_zone": options.pop("time_zone", "UTC"),
        "exposures": {"files": "log.csv"} | (COLUMNS if declared is None else declared),
    }
    if pre_period is not None:
        source["pre_period"] = pre_period
    return read_exposures(folder, ExposureSource.model_validate(source), arms=ARMS, **options)


def test_rows_are_added_up_by_user_arm_and_day(tmp_path):
    found = read(tmp_path, SUMS)
    assert found.user_days.to_dict("split")["data"] == [
        ["a", "base", DAY, 10, 2, 1.5], ["b", "din", DAY, 4, 0, 0], ["a", "base", DAY + 1, 6, 2, 2.25],
    ]  # fmt: skip
    assert found.pre_period.empty
    assert found.left_out == {}


def test_impressions_with_words_for_clicks_and_local_times(tmp_path):
    text = "customer;variant;shown at;outcome\n1;0;24.03.2024 23:30;click\n1;0;24.03.2024 22:59;\n2;1;25.03.2024 01:00;skip\n"
    declared = {
        "user": "customer", "arm": "variant", "time": {"column": "shown at", "format": "%d.%m.%Y %H:%M", "zone": "UTC"},
        "clicks": {"column": "outcome", "positive": "click"},
    }  # fmt: skip
    (tmp_path / "log.csv").write_text(text)
    source = ExposureSource.model_validate(
        {"time_zone": "Europe/Berlin", "exposures": {"files": "log.csv"} | declared}
    )
    found = read_exposures(tmp_path, source, arms=["0", "1"]).user_days
    assert found.to_dict("split")["data"] == [
        [1, "0", DAY - 1, 1, 0, 0], [1, "0", DAY, 1, 1, 0], [2, "1", DAY, 1, 0, 0],
    ]  # fmt: skip


def test_a_parquet_file_with_times_in_seconds(tmp_path):
    frame = pd.DataFrame(
        {
            "user": [7, 7],
            "arm": ["din", "din"],
            "time": [DAY * 86_400, DAY * 86_400 + 5],
            "clicks": [True, False],
        }
    )
    frame.to_parquet(tmp_path / "log.parquet")
    source = ExposureSource.model_validate({"exposures": {"files": "log.parquet"}})
    found = read_exposures(tmp_path, source, arms=ARMS).user_days
    assert found.to_dict("split")["data"] == [[7, "din", DAY, 2, 1, 0]]


def test_rows_before_the_start_are_the_pre_period_without_arms(tmp_path):
    text = SUMS.replace("2024-03-25,a,base", "2024-03-25,a,").replace("2024-03-25,b,din", "2024-03-25,b,old")
    found = read(tmp_path, text, start=date(2024, 3, 26))
    assert found.pre_period.to_dict("split")["data"] == [["a", 10, 2, 1.5], ["b", 4, 0, 0]]
    assert len(found.user_days) == 1


def test_the_pre_period_may_be_a_table_of_its_own(tmp_path):
    (tmp_path / "before.csv").write_text("customer,views,clicked,spent\na,30,3,1\na,10,0,\nz,1,1,9\n")
    declared = {
        "files": "before.csv",
        "user": "customer",
        "impressions": "views",
        "clicks": "clicked",
        "revenue": "spent",
    }
    found = read(tmp_path, SUMS, pre_period=declared)
    assert found.pre_period.to_dict("split")["data"] == [["a", 40, 3, 1], ["z", 1, 1, 9]]


BAD = {
    "a mistyped arm": ("b,din,4,0,", "b,dinn,4,0,", r"log.csv, column arm \(exposures.arm\): found 1 invalid value\(s\), for example 'dinn'; expected one of the arms of split: base, din"),
    "no arm": ("b,din,4,0,", "b,,4,0,", r"column arm .*found 1 row\(s\) without a value"),
    "a negative revenue": ("2,1.5", "2,-1.5", r"column paid \(exposures.revenue\): .*'-1.5'; expected a number of at least 0"),
    "more clicks than impressions": ("10,2,1.5", "10,12,1.5", r"column clicks \(exposures.clicks\): .*'12'; expected a number from 0 to the impressions"),
    "negative clicks": ("10,2,1.5", "10,-2,1.5", r"'-2'; expected a number from 0"),
    "a word for impressions": ("10,2,1.5", "ten,2,1.5", r"column shown \(exposures.impressions\): .*'ten'"),
    "no user": ("25,b,", "25,,", r"column user"),
    "no date": ("2024-03-26,a,base,5", "soon,a,base,5", r"column day \(exposures.day\): .*'soon'; expected a date"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_row_is_named_or_skipped_and_counted(tmp_path, case):
    old, new, message = BAD[case]
    assert old in SUMS
    with pytest.raises(InputError, match=message):
        read(tmp_path, SUMS.replace(old, new, 1))
    found = read(tmp_path, SUMS.replace(old, new, 1), on_bad_line="skip")
    assert sum(found.left_out.values()) == 1
    whole = read(tmp_path, SUMS).user_days
    assert found.user_days["impressions"].sum() < whole["impressions"].sum()


def test_a_missing_column_is_named_with_the_columns_of_the_file(tmp_path):
    with pytest.raises(
        InputError,
        match=r"log.csv: column variant \(source.exposures.arm\) not found; the columns are day, user, arm",
    ):
        read(tmp_path, SUMS, COLUMNS | {"arm": "variant"})


def test_sums_declared_as_impressions_are_noticed(tmp_path):
    with pytest.raises(InputError, match="each row is an impression"):
        read(tmp_path, SUMS, {"day": "day"})


def test_a_log_without_rows_of_the_test_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"log.csv: no row is of the test on or after start \(2025-01-01\)"):
        read(tmp_path, SUMS, start=date(2025, 1, 1))


def test_rows_may_be_selected(tmp_path):
    found = read(tmp_path, SUMS, COLUMNS | {"where": {"arm": ["base"]}})
    assert set(found.user_days["arm"]) == {"base"}
    assert found.left_out == {"rows of exposures whose arm is not base": 1}


def test_decimal_commas_are_explained(tmp_path):
    with pytest.raises(InputError, match=r"set decimal: comma in source\.exposures"):
        read(tmp_path, SUMS.replace(",", ";").replace("1.5", "1,5"))
