"""Daily folders: their names, files and hashes, and several days as one log."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from support.days import FEATURES, day_name, day_tables, write_days, write_tables

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.retraining.days import (
    ReaderConfig,
    combine_days,
    content_hash,
    day_number,
    file_sizes,
    impressions_of,
    list_days,
    read_day,
    read_days,
)
from deep_interest.sources.tables.declaration import Source

FILES = ("behaviors", "items", "users", "impressions")
SOURCE = Source.model_validate({name: {"files": f"{name}.parquet"} for name in FILES})
READING = ReaderConfig(SOURCE, FeatureColumns.model_validate(FEATURES))


@pytest.mark.parametrize(
    ("day", "number"), [("1970-01-01", 0), ("1970-02-01", 31), ("1969-12-31", -1), ("2024-03-01", 19_783)]
)
def test_a_day_is_numbered_from_1970(day, number):
    assert day_number(day) == number


def test_a_day_that_the_calendar_lacks_is_named():
    with pytest.raises(InputError, match="2024-02-30"):
        day_number("2024-02-30")


def test_days_are_folders_of_that_name_in_order(tmp_path):
    for name in ("2024-03-02", "2024-03-01", "2024-3-1", "x2024-03-01", "2024-03-011", "latest"):
        (tmp_path / name).mkdir()
    (tmp_path / "2024-03-03").write_text("a file")
    assert list_days(tmp_path) == ["2024-03-01", "2024-03-02"]


def test_a_days_hash_is_of_its_files_names_and_bytes_in_order(tmp_path):
    (tmp_path / "sub").mkdir()
    files = {"b.csv": b"22", "a.csv": b"1", "sub/c.csv": b"333"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".hidden").write_bytes(b"x")
    assert file_sizes(tmp_path) == {"a.csv": 1, "b.csv": 2, "sub/c.csv": 3}
    assert list(file_sizes(tmp_path)) == ["a.csv", "b.csv", "sub/c.csv"]
    whole = b"".join(name.encode() + b"\0" + hashlib.sha256(files[name]).digest() for name in sorted(files))
    assert content_hash(tmp_path) == hashlib.sha256(whole).hexdigest()


def shown(rows):
    return pd.DataFrame(rows, columns=["user", "item", "time", "label", "day"])


def day_of(number, *, users=None, items=None, time=None, user="u", item=1):
    time = np.int64(number * 86_400 if time is None else time)
    behaviors = pd.DataFrame({"user": [user], "item": [item], "time": [time], "day": [number]})
    items = pd.DataFrame({"item": [item]} if items is None else items)
    return CanonicalTables(
        behaviors,
        items,
        None if users is None else pd.DataFrame(users),
        shown([(user, item, time, 1, number)]),
    )


def test_the_last_row_that_says_anything_of_an_item_or_user_counts():
    days = [
        day_of(0, items={"item": [1, 2, 3], "kind": ["a", "b", None], "size": [1, None, None]}, users={"user": ["u"], "plan": ["free"]}),
        day_of(1, items={"item": [1, 2, 4], "kind": [None, "c", None], "size": [None, None, 4]}),
        day_of(2, items={"item": [], "kind": [], "size": []}, users={"user": ["v", "u"], "plan": ["paid", None]}),
    ]  # fmt: skip
    whole = combine_days(days, ["a", "b", "c"], READING)
    assert whole.items.astype(object).where(whole.items.notna(), None).values.tolist() == [
        [1, "a", 1], [2, "c", None], [3, None, None], [4, None, 4],
    ]  # fmt: skip
    assert whole.users.astype(object).where(whole.users.notna(), None).values.tolist() == [
        ["u", "free"],
        ["v", "paid"],
    ]
    assert whole.items.index.tolist() == [0, 1, 2, 3]
    assert combine_days([day_of(0), day_of(1)], ["a", "b"], READING).users is None


def test_ties_across_days_follow_the_readings_seed_and_repetitions_its_choice():
    pair = [day_of(0, time=5, item=item) for item in range(2)] + [
        day_of(1, time=5, item=item) for item in range(30)
    ]
    names = [str(k) for k in range(len(pair))]
    for seed in (0, 4):
        for repeated in (False, True):
            reading = ReaderConfig(SOURCE, READING.features, tie_seed=seed, repeated_impressions=repeated)
            raw = CanonicalTables(
                *(pd.concat([getattr(one, name) for one in pair], ignore_index=True) for name in ("behaviors", "items")), None,
                pd.concat([one.impressions for one in pair], ignore_index=True),
            )  # fmt: skip
            expected = canonical(
                CanonicalTables(raw.behaviors, raw.items.drop_duplicates(), None, raw.impressions), seed=seed,
                repeated_impressions=repeated,
            )  # fmt: skip
            whole = combine_days(pair, names, reading)
            pd.testing.assert_frame_equal(whole.behaviors, expected.behaviors)
            pd.testing.assert_frame_equal(whole.impressions, expected.impressions)
            assert len(whole.impressions) == (32 if repeated else 30)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"user": 7}, r"impressions\.user: strings on d0, numbers on d2"),
        ({"item": "x"}, r"impressions\.item: numbers on d0, strings on d2"),
        ({"time": 10**12}, r"impressions\.time: 1 ticks per second on d0, 1000 ticks per second on d2"),
    ],
)
def test_days_of_other_kinds_are_named(other, message):
    with pytest.raises(InputError, match=message):
        combine_days([day_of(0), day_of(1), day_of(2, **other)], ["d0", "d1", "d2"], READING)


def test_a_window_has_the_impressions_of_its_days_and_all_behaviours():
    base = day_number("2024-03-01")
    tables = day_of(base)
    rows = shown([("u", 1, 5, 0, base + k) for k in (0, 1, 2, 1)])
    tables = CanonicalTables(tables.behaviors, tables.items, None, rows)
    some = impressions_of(tables, ["2024-03-02", "2024-03-03"])
    assert some.impressions["day"].tolist() == [base + 1, base + 2, base + 1]
    assert some.impressions.index.tolist() == [0, 1, 2]
    assert some.behaviors is tables.behaviors


@pytest.mark.parametrize("options", [{}, {"tie_seed": 3}, {"repeated_impressions": True}])
def test_a_day_is_read_as_its_reading_says(tmp_path, options):
    tables = day_tables(0, users=20, per_user=5)
    tables["behaviors"]["time"] = tables["behaviors"]["time"].min()
    tables["impressions"] = pd.concat([tables["impressions"]] * 2)
    write_tables(tmp_path / day_name(0), tables)
    day = read_day(tmp_path / day_name(0), ReaderConfig(SOURCE, READING.features, **options))
    assert len(day.impressions) == (200 if "repeated_impressions" in options else 100)
    plain = read_day(tmp_path / day_name(0), READING)
    assert (day.behaviors["item"].tolist() != plain.behaviors["item"].tolist()) == ("tie_seed" in options)


def test_a_broken_line_is_an_error_or_left_out_as_the_reading_says(tmp_path):
    write_days(tmp_path, range(1), users=20, per_user=5)
    source = Source.model_validate(
        {name: {"files": f"{name}.parquet"} for name in FILES} | {"impressions": {"files": "impressions.csv"}}
    )
    file = tmp_path / day_name(0) / "impressions.csv"
    pd.read_parquet(file.with_suffix(".parquet")).to_csv(file, index=False)
    file.write_text(file.read_text() + "u1,sku-1,not a time,0,1\n")
    with pytest.raises(InputError, match=rf"{day_name(0)}: .*impressions"):
        read_days(tmp_path, [day_name(0)], ReaderConfig(source, READING.features))
    days = read_days(tmp_path, [day_name(0)], ReaderConfig(source, READING.features, on_bad_line="skip"))
    assert len(days.impressions) == 100
