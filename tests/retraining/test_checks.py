"""Each way in which a day can be bad, on real files."""

import shutil

import numpy as np
import pandas as pd
import pytest
from support.days import DAY, FEATURES, day_name, day_tables, write_days, write_tables

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.checks import BadDayError, changed_days, check_days
from deep_interest.retraining.days import (
    ReaderConfig,
    combine_days,
    day_number,
    list_days,
    read_day,
    read_days,
)
from deep_interest.retraining.parameters import DayBounds
from deep_interest.sources.tables.declaration import Source

FILES = ("behaviors", "items", "users", "impressions")
READING = ReaderConfig(
    Source.model_validate({name: {"files": f"{name}.parquet"} for name in FILES}), FeatureColumns.model_validate(FEATURES)
)  # fmt: skip
BOUNDS = DayBounds()
SMALL = {"users": 20, "per_user": 5}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Four good days and their records."""
    folder = write_days(tmp_path_factory.mktemp("days"), range(4), **SMALL)
    return folder, check_days(folder, list_days(folder), {}, READING, BOUNDS, None)


@pytest.fixture
def days(checked, tmp_path):
    """The good days in a folder of their own, and their records."""
    folder, records = checked
    shutil.copytree(folder, tmp_path / "days")
    return tmp_path / "days", records


def check(days, day=None, *, vocabularies=None):
    folder, records = days
    return check_days(folder, [day or day_name(4)], records, READING, BOUNDS, vocabularies)


@pytest.mark.slow
def test_good_days_are_measured_exactly(checked):
    _, records = checked
    shown = day_tables(2, **SMALL)["impressions"]
    figures = records[day_name(2)]["figures"]
    assert figures["impressions"] == len(shown) == 100
    assert figures["ctr"] == pytest.approx(shown["label"].mean(), abs=1e-6)
    assert figures["missing.category"] == figures["other_days"] == figures["later"] == 0


@pytest.mark.slow
def test_a_day_like_the_others_passes(days):
    write_tables(days[0] / day_name(4), day_tables(4, **SMALL))
    assert set(check(days)) == {day_name(4)}


def spoil(tables, fault):
    """A day's tables with a fault."""
    shown = tables["impressions"]
    if fault == "clicked ten times as often":
        tables["impressions"] = shown.assign(label=np.int8(1))
    elif fault == "one user only":
        tables["impressions"] = shown.head(20)
    elif fault == "no category":
        tables["items"] = tables["items"].assign(category=None)
        tables["items"]["category"] = tables["items"]["category"].astype("Int64")
    elif fault == "no rows":
        tables["impressions"] = shown.head(0)
    elif fault == "label 2":
        tables["impressions"] = shown.assign(label=np.int8(2))
    elif fault == "no column":
        tables["impressions"] = shown.drop(columns="placement")
    elif fault == "the day before":
        tables["impressions"] = shown.assign(time=shown["time"] - DAY)
    elif fault == "behaviours of tomorrow":
        tables["behaviors"] = tables["behaviors"].assign(time=tables["behaviors"]["time"] + DAY)
    elif fault == "twice":
        tables["impressions"] = pd.concat([shown, shown])
    elif fault == "unknown placements":
        tables["impressions"] = shown.assign(placement=7)
    return tables


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("clicked ten times as often", r"2024-03-05: ctr 1\.0000, expected 0\.\d+ to 0\.\d+ \(the 4 days before"),
        ("one user only", r"2024-03-05: impressions 20, expected 30 to 300"),
        ("no category", r"2024-03-05: category: \d+\.\d% missing, the 4 days before 0\.0%"),
        ("no rows", r"2024-03-05: impressions: no rows remain"),
        ("label 2", r"2024-03-05: .*label.*2"),
        ("no column", r"2024-03-05: .*placement"),
        ("the day before", r"2024-03-05: 100 of 100 impressions are of another day"),
        ("behaviours of tomorrow", r"2024-03-05: 100 behaviors are later than the day"),
        ("twice", r"2024-03-05: 50\.0% of the impressions are repeated"),
    ],
)  # fmt: skip
def test_a_bad_day_is_refused_with_its_reason(days, fault, message):
    write_tables(days[0] / day_name(4), spoil(day_tables(4, **SMALL), fault))
    with pytest.raises(BadDayError, match=message):
        check(days)


def test_values_that_no_day_before_had_are_noticed(days):
    folder, records = days
    known = FieldVocabularies()
    known.learn("placement", pd.Series([0, 1, 2]))
    for day in records.values():
        day["figures"]["unknown.placement"] = 0.0
    write_tables(folder / day_name(4), spoil(day_tables(4, **SMALL), "unknown placements"))
    with pytest.raises(BadDayError, match=r"placement: 100\.0% unknown, the 4 days before 0\.0%"):
        check(days, vocabularies=known)


def test_a_copy_of_another_day_is_refused(days):
    folder, _ = days
    shutil.copytree(folder / day_name(1), folder / day_name(4))
    with pytest.raises(BadDayError, match="the same files as 2024-03-02"):
        check(days)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_refused(days, file):
    folder, _ = days
    write_tables(folder / day_name(4), day_tables(4, **SMALL))
    (folder / day_name(4) / f"{file}.parquet").unlink()
    with pytest.raises(BadDayError, match=rf"2024-03-05: .*{file}\.parquet"):
        check(days)


@pytest.mark.parametrize("damage", ["cut", "empty", "garbled"])
def test_a_damaged_file_is_refused(days, damage):
    folder, _ = days
    file = write_tables(folder / day_name(4), day_tables(4, **SMALL)) / "impressions.parquet"
    whole = file.read_bytes()
    file.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "garbled": b"\0" * len(whole)}[damage])
    with pytest.raises(BadDayError, match=r"2024-03-05: .*impressions\.parquet"):
        check(days)


def test_a_folder_that_is_still_being_written_is_no_day(days):
    folder, _ = days
    (folder / ".2024-03-05.x.part").mkdir()
    (folder / "2024-03-05.tmp").mkdir()
    assert list_days(folder) == [day_name(number) for number in range(4)]


def test_every_bad_day_is_named_at_once(days):
    folder, records = days
    for number in (4, 5):
        write_tables(folder / day_name(number), spoil(day_tables(number, **SMALL), "no column"))
    with pytest.raises(
        BadDayError, match=r"2 finding\(s\), no day was used(?s:.*)2024-03-05(?s:.*)2024-03-06"
    ):
        check_days(folder, [day_name(4), day_name(5)], records, READING, BOUNDS, None)


def test_a_late_day_is_measured_by_the_days_before_it(days):
    folder, records = days
    late = {day: record for day, record in records.items() if day != day_name(0)}
    assert set(check_days(folder, [day_name(0)], late, READING, BOUNDS, None)) == {day_name(0)}


def test_a_taken_day_that_has_changed_is_noticed_and_checked_like_a_new_one(days):
    folder, records = days
    assert changed_days(folder, list_days(folder), records) == []
    write_tables(folder / day_name(1), day_tables(1, seed=1, **SMALL))
    write_tables(folder / day_name(3), spoil(day_tables(3, **SMALL), "no column"))
    assert changed_days(folder, list_days(folder), records) == [day_name(1), day_name(3)]
    assert check(days, day_name(1))[day_name(1)]["hash"] != records[day_name(1)]["hash"]
    with pytest.raises(BadDayError, match="2024-03-04"):
        check(days, day_name(3))


@pytest.mark.slow
def test_days_join_into_one_log_where_the_last_row_of_an_item_counts(days):
    folder, _ = days
    changed = day_tables(4, **SMALL)
    row = pd.DataFrame({"item": ["sku-3"], "category": [4], "brand": ["new"]})
    changed["items"] = pd.concat([changed["items"], row])
    write_tables(folder / day_name(4), changed)
    whole = read_days(folder, list_days(folder), READING)
    assert len(whole.impressions) == 5 * 100
    items = whole.items.set_index("item")
    assert items.index.is_unique
    assert (items.loc["sku-3", "category"], items.loc["sku-3", "brand"]) == (4, "new")
    assert items.loc["sku-4", "brand"] == "b4"  # later days have it without features
    assert set(whole.impressions["day"]) == {day_number(day_name(number)) for number in range(5)}


def test_days_whose_ids_are_of_two_kinds_are_named(days):
    folder, _ = days
    tables = day_tables(4, **SMALL)
    for name in ("behaviors", "impressions", "users"):
        tables[name]["user"] = tables[name]["user"].str[1:].astype(int)
    write_tables(folder / day_name(4), tables)
    read = [read_day(folder / day_name(number), READING) for number in (3, 4)]
    with pytest.raises(ValueError, match=r"impressions\.user: strings on 2024-03-04, numbers on 2024-03-05"):
        combine_days(read, [day_name(3), day_name(4)], READING)
