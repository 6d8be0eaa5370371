"""Times and days in every supported unit, format and time zone."""

from datetime import UTC, datetime

import pytest
from support.tables import declare_impressions, read, write

from deep_interest.logs.feature_columns import FeatureColumns


def seconds(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("time", "written", "expected"),
    [
        ({"column": "time"}, "1650902400", 1650902400),
        ({"column": "time", "unit": "milliseconds"}, "1650902400123", 1650902400123),
        ({"column": "time", "unit": "microseconds"}, "1650902400123456", 1650902400123456),
        ({"column": "time"}, "1650902400.9", 1650902400),
        ({"column": "time"}, "2022-04-25T18:00:00+02:00", 1650902400000),
        ({"column": "time"}, "2022-04-25 16:00:00Z", 1650902400000),
        ({"column": "time", "zone": "Europe/Berlin"}, "2022-04-25 16:00:00 UTC", 1650902400000),
        ({"column": "time", "zone": "Europe/Berlin"}, "2022-04-25 16:00:00.000000 UTC", 1650902400000),
        ({"column": "time"}, "2022-04-25 12:00:00 America/New_York", 1650902400000),
        ({"column": "time"}, "2022-04-25T16:00:00.250", 1650902400250),
        ({"column": "time", "zone": "Europe/Berlin"}, "2022-04-25 18:00:00", 1650902400000),
        ({"column": "time", "zone": "Europe/Berlin"}, "2022-01-25 17:00:00", 1643126400000),
        ({"column": "time"}, "2022-04-25", 1650844800000),
        ({"column": "time", "format": "%d.%m.%Y %H:%M", "zone": "Asia/Shanghai"}, "26.04.2022 00:00", 1650902400000),
        ({"column": "time", "format": "%Y-%m-%d %H:%M:%S %z"}, "2022-04-25 18:00:00 +0200", 1650902400000),
    ],
)  # fmt: skip
def test_a_time_is_read_as_declared(tmp_path, time, written, expected):
    write(tmp_path, visits=f"user,item,time\n1,10,{written}\n2,11,{written}\n")
    declared = {"files": "visits.csv", "time": time}
    tables = read(tmp_path, FeatureColumns(), behaviors=declared, impressions=[])
    assert tables.behaviors["time"].tolist() == [expected, expected]


def test_tables_with_different_units_use_the_finest_unit(tmp_path):
    write(tmp_path, impressions="user,item,time,label,place\n1,10,1970-01-01T00:01:40Z,1,top\n")
    tables = read(tmp_path)
    assert tables.behaviors["time"].tolist() == [50_000, 60_000]
    assert tables.impressions["time"].tolist() == [100_000]


def test_days_hours_and_weekdays_are_in_local_time(tmp_path):
    late = seconds(2022, 4, 24, 22, 30)  # Sunday in UTC, Monday 00:30 in Berlin
    write(tmp_path, impressions=f"user,item,time,label\n1,10,{late},1\n")
    local = read(tmp_path, FeatureColumns(context=("hour", "weekday")), time_zone="Europe/Berlin").impressions
    plain = read(tmp_path, FeatureColumns(context=("hour", "weekday"))).impressions
    assert local[["day", "hour", "weekday"]].to_numpy().tolist() == [[19107, 0, 1]]
    assert plain[["day", "hour", "weekday"]].to_numpy().tolist() == [[19106, 22, 7]]


def test_hours_and_weekdays_of_behaviours_are_in_local_time(tmp_path):
    late = seconds(2022, 4, 24, 22, 30)  # Sunday in UTC, Monday 00:30 in Berlin
    write(tmp_path, visits=f"user,item,time\n1,10,{late}\n")
    features = FeatureColumns(behavior=("item_id", "hour", "weekday"))
    for zone, expected in {"Europe/Berlin": [[0, 1]], "UTC": [[22, 7]]}.items():
        tables = read(tmp_path, features, behaviors={"files": "visits.csv"}, time_zone=zone)
        assert tables.behaviors[["hour", "weekday"]].to_numpy().tolist() == expected


def test_columns_for_the_day_and_hour_replace_those_of_the_time(tmp_path):
    write(
        tmp_path,
        impressions="user,item,time,label,date,hour\n1,10,100,1,20220425,x\n2,11,100,0,2022-04-26,y\n",
    )
    tables = read(tmp_path, FeatureColumns(context=("hour",)), **declare_impressions(day="date"))
    assert tables.impressions["day"].tolist() == [19107, 19108]
    assert tables.impressions["hour"].tolist() == ["x", "y"]
