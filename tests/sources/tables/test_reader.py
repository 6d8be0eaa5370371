"""Tables of any layout, read as declared; and every way in which they can be wrong."""

import gzip
import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from pydantic import ValidationError

from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.sources.tables import reader, scan
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

SHOWN = "user,item,time,label,place\n1,10,100,0,top\n2,11,90000,1,side\n"
VISITS = "user,item,time\n1,10,50\n2,11,60\n"
GOODS = "item,category\n10,a\n11,b\n"
DECLARED = {
    "behaviors": {"files": "visits.csv"},
    "items": {"files": "goods.csv"},
    "impressions": {"files": "shown.csv"},
}
FEATURES = FeatureColumns(context=("place",))


def write(folder: Path, **files: str) -> None:
    """Write ``name=text`` as ``name.csv``."""
    texts = {"visits": VISITS, "goods": GOODS, "shown": SHOWN} | files
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")


def read(folder: Path, features: FeatureColumns = FEATURES, *, skip: bool = False, **changes: object):
    source = Source.model_validate(DECLARED | changes)
    return read_tables(folder, source, features, on_bad_line="skip" if skip else "error")


def impressions(**more: object) -> dict[str, object]:
    return {"impressions": {"files": "shown.csv"} | more}


def seconds(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp())


def test_tables_with_the_canonical_names_need_only_their_files(tmp_path):
    write(tmp_path)
    tables = read(tmp_path)
    assert tables.behaviors.to_dict("list") == {
        "user": [1, 2],
        "item": [10, 11],
        "time": [50, 60],
        "day": [0, 0],
    }
    assert tables.impressions.to_dict("list") == {
        "user": [1, 2], "item": [10, 11], "time": [100, 90000], "label": [0, 1], "day": [0, 1], "place": ["top", "side"],
    }  # fmt: skip
    assert tables.items.to_dict("list") == {"item": [10, 11], "category": ["a", "b"]}
    assert tables.users is None
    assert tables.left_out == tables.notes == {}


def test_columns_may_have_any_name_and_features_a_name_of_ones_own(tmp_path):
    write(tmp_path, goods='"Art.-Nr.";"Waren gruppe, neu"\n10;a\n11;b\n')
    items = {"files": "goods.csv", "item": "Art.-Nr.", "columns": {"kind": "Waren gruppe, neu"}}
    tables = read(tmp_path, FeatureColumns(item=("goods", "kind")), items=items)
    assert tables.items.to_dict("list") == {"item": [10, 11], "kind": ["a", "b"]}


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


def test_tables_with_different_units_end_in_the_finest(tmp_path):
    write(tmp_path, shown="user,item,time,label,place\n1,10,1970-01-01T00:01:40Z,1,top\n")
    tables = read(tmp_path)
    assert tables.behaviors["time"].tolist() == [50_000, 60_000]
    assert tables.impressions["time"].tolist() == [100_000]


def test_days_hours_and_weekdays_are_local(tmp_path):
    late = seconds(2022, 4, 24, 22, 30)  # Sunday in UTC, Monday 00:30 in Berlin
    write(tmp_path, shown=f"user,item,time,label\n1,10,{late},1\n")
    local = read(tmp_path, FeatureColumns(context=("hour", "weekday")), time_zone="Europe/Berlin").impressions
    plain = read(tmp_path, FeatureColumns(context=("hour", "weekday"))).impressions
    assert local[["day", "hour", "weekday"]].to_numpy().tolist() == [[19107, 0, 1]]
    assert plain[["day", "hour", "weekday"]].to_numpy().tolist() == [[19106, 22, 7]]


def test_a_date_column_decides_the_day_and_a_column_called_hour_is_taken_as_it_is(tmp_path):
    write(tmp_path, shown="user,item,time,label,date,hour\n1,10,100,1,20220425,x\n2,11,100,0,2022-04-26,y\n")
    tables = read(tmp_path, FeatureColumns(context=("hour",)), **impressions(day="date"))
    assert tables.impressions["day"].tolist() == [19107, 19108]
    assert tables.impressions["hour"].tolist() == ["x", "y"]


def test_only_the_actions_that_count_are_behaviours_and_the_others_are_counted(tmp_path):
    write(tmp_path, visits="user,item,time,event\n1,10,1,view\n1,11,2,hover\n1,11,3,buy\n1,10,4,\n")
    tables = read(tmp_path, behaviors={"files": "visits.csv", "where": {"event": ["view", "buy"]}})
    assert tables.behaviors["time"].tolist() == [1, 3]
    assert tables.left_out == {"rows of behaviors whose event is not view or buy": 2}


def test_a_where_that_no_row_meets_shows_the_columns_values(tmp_path):
    write(tmp_path, visits="user,item,time,event\n1,10,1,view\n")
    with pytest.raises(InputError, match=r"visits.csv, column event: no row .*\(buy\).*values\s+are view"):
        read(tmp_path, behaviors={"files": "visits.csv", "where": {"event": "buy"}})


def test_a_sequence_becomes_behaviours_in_its_order_up_to_its_time(tmp_path):
    write(tmp_path, visits="user,seen,last\n1,10 11  10,500\n2,,600\n3,11,700\n")
    behaviors = [{"files": "visits.csv", "sequence": "seen", "time": "last"}]
    tables = read(tmp_path, behaviors=behaviors)
    assert tables.behaviors[["user", "item", "time"]].to_numpy().tolist() == [
        [1, 10, 498],
        [1, 11, 499],
        [1, 10, 500],
        [3, 11, 700],
    ]


def test_rows_of_several_blocks_belong_together(tmp_path):
    write(tmp_path, more="who,what,at\n3,11,1970-01-01 00:00:07\n")
    more = {"files": "more.csv", "user": "who", "item": "what", "time": "at"}
    tables = read(tmp_path, behaviors=[{"files": "visits.csv"}, more])
    assert tables.behaviors["time"].tolist() == [50_000, 60_000, 7_000]


def test_several_columns_may_make_an_id(tmp_path):
    write(tmp_path, visits="user,cate,brand,time\n1,7,x,50\n1,7,y,60\n")
    pairs = {
        "files": "visits.csv",
        "item": ["cate", "brand"],
        "columns": {"category": "cate"},
        "repeated": "first",
    }
    tables = read(
        tmp_path,
        behaviors={"files": "visits.csv", "item": ["cate", "brand"]},
        items=[{"files": "goods.csv"}, pairs],
    )
    assert tables.behaviors["item"].tolist() == ["7|x", "7|y"]
    assert tables.impressions["item"].tolist() == ["10", "11"]
    assert dict(tables.items.to_numpy().tolist()) == {"10": "a", "11": "b", "7|x": "7", "7|y": "7"}


def test_the_label_may_be_named_by_its_positive_values(tmp_path):
    write(
        tmp_path, shown="user,item,time,label,place\n1,10,1,click,a\n1,10,2,,a\n1,10,3,buy,a\n1,10,4,skip,a\n"
    )
    tables = read(tmp_path, **impressions(label={"column": "label", "positive": ["click", "buy"]}))
    assert tables.impressions["label"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("written", [("0", "1"), ("false", "true"), ("False", "True"), ("0.0", "1.0")])
def test_a_label_of_two_truth_values_is_understood(tmp_path, written):
    write(tmp_path, shown=f"user,item,time,label,place\n1,10,1,{written[0]},a\n1,10,2,{written[1]},a\n")
    assert read(tmp_path).impressions["label"].tolist() == [0, 1]


def test_csv_parquet_and_json_lines_give_the_same_tables(tmp_path):
    write(tmp_path)
    frames = {
        "visits": pd.read_csv(tmp_path / "visits.csv"),
        "goods": pd.read_csv(tmp_path / "goods.csv"),
        "shown": pd.read_csv(tmp_path / "shown.csv"),
    }
    for name, frame in frames.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
        lines = "\n".join(json.dumps(row) for row in frame.to_dict("records"))
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress((tmp_path / f"{name}.csv").read_bytes()))
    expected = read(tmp_path)
    for ending in ("parquet", "jsonl.gz", "csv.gz"):
        files = {"behaviors": "visits", "items": "goods", "impressions": "shown"}
        found = read(tmp_path, **{table: {"files": f"{file}.{ending}"} for table, file in files.items()})
        for table in files:
            pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table))


def test_several_values_in_a_cell_are_a_text_or_a_list(tmp_path):
    write(tmp_path, goods="item,tags\n10, a|b c\n11,\n12,39\n13,[x\n")
    lists = [["a", "b c"], [], ["39"], ["[x"]]
    frame = pd.DataFrame({"item": [10, 11, 12, 13], "tags": lists})
    frame.to_parquet(tmp_path / "goods.parquet")
    frame.to_json(tmp_path / "goods.jsonl", orient="records", lines=True)
    pd.DataFrame({"item": [10, 11], "tags": [[7, 8], None]}).to_parquet(tmp_path / "numbers.parquet")
    features = FeatureColumns(item=("goods", "tags"), multi_hot={"tags": "|"})
    for file in ("goods.csv", "goods.parquet", "goods.jsonl"):
        tags = read(tmp_path, features, items={"files": file}).items["tags"]
        assert tags.str.strip().fillna("missing").tolist() == ["a|b c", "missing", "39", "[x"]
    tags = read(tmp_path, features, items={"files": "numbers.parquet"}).items["tags"]
    assert tags[:2].fillna("missing").tolist() == ["7|8", "missing"]


def test_a_value_of_a_list_that_contains_the_separator_is_an_error(tmp_path):
    write(tmp_path)
    frame = pd.DataFrame({"item": [10, 11], "tags": [["a|b"], ["c"]]})
    frame.to_parquet(tmp_path / "goods.parquet")
    features = FeatureColumns(item=("goods", "tags"), multi_hot={"tags": "|"})
    with pytest.raises(
        InputError, match=r"column tags: 1 values of its lists contain the separator '\|', such as 'a\|b'; set features.multi_hot.tags"
    ):  # fmt: skip
        read(tmp_path, features, items={"files": "goods.parquet"})


def test_a_table_may_lie_in_a_database(tmp_path):
    write(tmp_path)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        database.execute(
            f"CREATE SCHEMA log; CREATE TABLE log.visits AS FROM read_csv('{tmp_path / 'visits.csv'}')"
        )
    expected = read(tmp_path).behaviors
    found = read(tmp_path, behaviors={"files": "shop.duckdb", "table": "log.visits"}).behaviors
    pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(InputError, match=r"shop.duckdb: say under `table` which table; it has visits"):
        read(tmp_path, behaviors={"files": "shop.duckdb"})
    with pytest.raises(InputError, match=r"shop.duckdb: table or view vizits not found"):
        read(tmp_path, behaviors={"files": "shop.duckdb", "table": "vizits"})


def test_partition_folders_patterns_and_lists_are_one_table(tmp_path):
    write(tmp_path)
    for day, text in (
        ("2022-04-25", "user,item,time\n1,10,1\n"),
        ("2022-04-26", "item,time,extra,user\n11,2,x,2\n"),
    ):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        (tmp_path / f"log/day={day}/part-0.csv").write_text(text)
        (tmp_path / f"log/day={day}/_SUCCESS").write_text("")
    expected = [[1, 10, 1, 19107], [2, 11, 2, 19108]]
    for files in (
        "log",
        "log/day=*/*.csv",
        ["log/day=2022-04-25", "log/day=2022-04-26/part-0.csv"],
        f"{tmp_path}/log/*/*.csv",
    ):
        tables = read(tmp_path, behaviors={"files": files, "day": "day"})
        assert tables.behaviors.to_numpy().tolist() == expected


def test_ids_beyond_64_bits_unicode_and_leading_zeros_are_kept_as_texts(tmp_path):
    ids = ["99999999999999999999", "007", "Zoë ☂", "7"]
    write(tmp_path, visits="user,item,time\n" + "".join(f"{name},10,{k}\n" for k, name in enumerate(ids)))
    tables = read(tmp_path)
    assert tables.behaviors["user"].tolist() == ids
    assert tables.impressions["user"].tolist() == ["1", "2"]


def test_integers_that_pandas_made_floats_are_integers_again(tmp_path):
    write(tmp_path)
    pd.DataFrame({"user": [1.0, 2.0, None], "item": [10, 11, 10], "time": [1, 2, 3]}).to_parquet(
        tmp_path / "v.parquet"
    )
    tables = read(tmp_path, behaviors={"files": "v.parquet"}, skip=True)
    assert tables.behaviors["user"].tolist() == [1, 2]
    assert tables.left_out == {"behaviors without a proper user, item, time": 1}


def test_items_without_a_row_get_one_without_features_and_are_counted(tmp_path):
    write(tmp_path, visits="user,item,time\n1,12,50\n1,12,51\n1,10,52\n")
    tables = read(tmp_path)
    assert tables.items["item"].tolist() == [10, 11, 12]
    assert tables.items["category"].isna().tolist() == [False, False, True]
    assert tables.notes == {"behaviors of items that have no row among the items": 2}


def test_users_without_a_profile_are_counted(tmp_path):
    write(tmp_path, people="user,age\n1,30\n")
    tables = read(tmp_path, FeatureColumns(profile=("age",)), users={"files": "people.csv"})
    assert tables.notes == {"impressions of users that have no row among the users": 1}


def test_a_user_with_two_profiles_is_an_error(tmp_path):
    write(tmp_path, people="user,age\n1,30\n2,40\n1,31\n")
    with pytest.raises(InputError, match=r"people.csv: user 1 has two rows or more"):
        read(tmp_path, FeatureColumns(profile=("age",)), users={"files": "people.csv"})


def test_a_source_may_have_no_items_and_no_impressions(tmp_path):
    write(tmp_path)
    tables = read_tables(
        tmp_path,
        Source.model_validate({"behaviors": {"files": "visits.csv"}}),
        FeatureColumns(item=("goods",)),
    )
    assert tables.items["item"].tolist() == [10, 11]
    assert tables.impressions is None


def test_the_first_of_repeated_items_counts_where_that_is_said(tmp_path):
    write(tmp_path, goods="item,category\n10,a\n11,b\n10,c\n")
    with pytest.raises(
        InputError, match=r"goods.csv: item 10 has two rows or more.*source.items.repeated to first"
    ):
        read(tmp_path)
    tables = read(tmp_path, items={"files": "goods.csv", "repeated": "first"})
    assert tables.items.to_numpy().tolist() == [[10, "a"], [11, "b"]]
    assert tables.left_out == {"further rows of the same item in items": 1}


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        ({}, {"behaviors": {"files": "vizits.csv"}}, r"vizits.csv: no such file"),
        ({"visits": ""}, {}, r"visits.csv: the file is empty"),
        ({"visits": "user,itm,time\n1,10,1\n"}, {}, r"visits.csv: column item \(source.behaviors.item\) not found; the columns are user, itm, time; did you mean itm"),
        ({"visits": "user,user,item,time\n1,1,10,1\n"}, {}, r"visits.csv: column 'user' stands in the header twice"),
        ({"visits": "user,item,time\n1,10,1\n1,10\n"}, {}, r"visits.csv: not readable as csv .*Line: 3.*on_bad_line"),
        ({"visits": "user,item,time\n1,10,yesterday\n1,10,7\n1,10,8\n"}, {}, r"visits.csv, column time \(behaviors.time\): found 1 values such as 'yesterday', expected a time"),
        ({"visits": "user,item,time\n,10,7\nnan,10,7\n"}, {}, r"visits.csv, column user \(behaviors.user\): found 2 rows have no value"),
        ({"visits": "user,item,time\n1,10,1650902400123\n"}, {}, r"column time: 1650902400123 seconds since 1970 lie beyond the year 2200; set unit: milliseconds"),
        ({"shown": SHOWN.replace(",0,", ",2,")}, {}, r"shown.csv, column label \(impressions.label\): found 1 values such as '2', expected 0 or 1.*label.positive"),
        ({"shown": SHOWN.replace(",0,", ",,")}, {}, r"shown.csv, column label .*1 rows have no value"),
        ({"shown": SHOWN.replace("place", "palce")}, {}, r"impressions: feature column\(s\) place not found; the source has the columns user, item, time, label, palce"),
        ({"shown": SHOWN.replace("place", "date")}, impressions(day="date"), r"feature column\(s\) place not found"),
        ({"goods": "item\tcategory\n10\ta\n"}, {"items": {"files": "goods.csv", "columns": {"category": "kind"}}}, r"column kind \(source.items.columns.category\) not found"),
        ({}, {"behaviors": {"files": ["visits.csv", "shown.parquet"]}}, r"shown.parquet: no such file"),
        ({"visits": "user,item,time\n1,10,2022-04-25 10:00:00 Neverland\n"}, {}, r"column time \(behaviors.time\): found 1 values such as '2022-04-25 10:00:00 Neverland'"),
        ({"visits": "PAR1\x00"}, {}, r"visits.csv: expected CSV in UTF-8, found Parquet"),
        ({}, impressions(label={"column": "label", "positive": ["ja"]}), r"shown.csv, column label: no row has a value of label.positive \(ja\); the column's values are 0, 1"),
        ({"visits": "user,item,time\n1,10,inf\n1,10,7\n1,10,8\n"}, {}, r"column time \(behaviors.time\): found 1 values such as 'inf'"),
        ({"visits": "user,item,time\n1,10,99999999999999999999\n1,10,7\n1,10,8\n"}, {}, r"column time \(behaviors.time\): found 1 values such as '9{20}'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_error_that_names_file_column_and_what_was_found(tmp_path, files, changes, message):
    write(tmp_path, **files)
    with pytest.raises(InputError, match=message):
        read(tmp_path, **changes)


def test_an_index_column_without_a_name_as_pandas_writes_it_is_no_matter(tmp_path):
    write(
        tmp_path,
        visits=",user,item,time\n0,1,10,50\n1,2,11,60\n",
        shown="user,item,time,label,place,\n1,10,100,0,top,\n",
    )
    tables = read(tmp_path)
    assert tables.behaviors["item"].tolist() == [10, 11]
    assert tables.impressions["place"].tolist() == ["top"]


@pytest.mark.parametrize(
    ("encoding", "message"), [("latin-1", "not UTF-8.*iconv"), ("utf-16", "found UTF-16")]
)
def test_a_csv_in_another_encoding_is_an_error_that_says_so(tmp_path, encoding, message):
    write(tmp_path)
    (tmp_path / "goods.csv").write_text("item,category\n10,Käse\n11,b\n", encoding=encoding)
    with pytest.raises(InputError, match=f"goods.csv.*{message}"):
        read(tmp_path)


@pytest.mark.parametrize("line", ["[1, 2]", '[{"user": 1}]', "7", '"text"', "{"])
def test_a_json_line_that_is_no_object_is_an_error_or_left_out_and_counted(tmp_path, line):
    write(tmp_path)
    lines = ['{"user": 1, "item": 10, "time": 50}', line, '{"user": 2, "item": 11, "time": 60}']
    (tmp_path / "visits.jsonl").write_text("\n".join(lines) + "\n")
    behaviors = {"files": "visits.jsonl"}
    with pytest.raises(InputError, match=r"visits.jsonl, line 2: expected one JSON object a line"):
        read(tmp_path, behaviors=behaviors)
    tables = read(tmp_path, behaviors=behaviors, skip=True)
    assert tables.behaviors["time"].tolist() == [50, 60]
    assert sum(tables.left_out.values()) == 1


def test_bad_rows_may_be_left_out_and_are_counted(tmp_path):
    write(
        tmp_path, shown=SHOWN + "3,10,soon,1,x\n3,10,7,2,x\n3,,7,1,x\n3,10,8,1,x\n", visits=VISITS + "1,10\n"
    )
    tables = read(tmp_path, skip=True)
    assert tables.impressions["time"].tolist() == [100, 90000, 8]
    assert tables.left_out == {
        "broken lines of behaviors": 1, "impressions without a proper user, item, time, label": 3,
    }  # fmt: skip


def test_a_missing_number_of_a_parquet_file_is_a_missing_value(tmp_path):
    write(tmp_path, goods="item,category,price\n10,a,1.5\n11,b,2\n")
    nan = float("nan")
    pd.DataFrame({"item": [10, 11], "price": [1.5, nan]}).to_parquet(tmp_path / "goods.parquet")
    features = FeatureColumns(item=("goods", "price"), buckets={"price": 3})
    assert read(tmp_path, features, items={"files": "goods.parquet"}).items["price"].isna().tolist() == [
        False,
        True,
    ]
    shown = pd.read_csv(tmp_path / "shown.csv")
    for column, message in (
        ("label", "expected 0 or 1"),
        ("time", "expected a time"),
        ("user", "expected an id"),
    ):
        shown.assign(**{column: [1.0, nan]}).to_parquet(tmp_path / "shown.parquet")
        with pytest.raises(InputError, match=rf"column {column} .*: found 1 .*{message}"):
            read(tmp_path, impressions={"files": "shown.parquet"})


def test_buckets_of_what_is_no_number_are_refused(tmp_path):
    write(tmp_path, goods="item,category,price\n10,a,1.5\n11,b,cheap\n")
    features = FeatureColumns(item=("goods", "price"), buckets={"price": 3})
    with pytest.raises(
        InputError, match=r"goods.csv, column price: 1 values are no numbers, such as 'cheap'"
    ):
        read(tmp_path, features)


def test_a_truncated_gz_is_an_error(tmp_path):
    write(tmp_path)
    packed = gzip.compress("\n".join(f"{k},10,{k * 7919 % 1000}" for k in range(20_000)).encode())
    (tmp_path / "v.csv.gz").write_bytes(packed[:-20])
    behaviors = {"files": "v.csv.gz", "names": ["user", "item", "time"]}
    with pytest.raises(InputError, match=r"v.csv.gz: the .gz is truncated or damaged"):
        read(tmp_path, behaviors=behaviors)


def test_half_a_parquet_file_is_an_error(tmp_path):
    write(tmp_path)
    pd.DataFrame({"user": [1], "item": [10], "time": [1]}).to_parquet(tmp_path / "v.parquet")
    (tmp_path / "v.parquet").write_bytes((tmp_path / "v.parquet").read_bytes()[:-30])
    with pytest.raises(InputError, match=r"v.parquet: not a whole Parquet file"):
        read(tmp_path, behaviors={"files": "v.parquet"})


def test_two_partitions_for_one_day_are_an_error(tmp_path):
    write(tmp_path)
    for day in ("2022-04-25", "20220425"):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        (tmp_path / f"log/day={day}/part.csv").write_text(VISITS)
    with pytest.raises(
        InputError, match=r"day=2022-04-25 and .*day=20220425|day=20220425 and .*day=2022-04-25"
    ):
        read(tmp_path, behaviors={"files": "log"})


def test_an_empty_partition_gives_no_rows_and_a_warning(tmp_path, caplog):
    write(tmp_path)
    for day, text in (("2022-04-25", VISITS), ("2022-04-26", ""), ("2022-04-27", "user,item,time\n")):
        (tmp_path / f"log/day={day}").mkdir(parents=True)
        (tmp_path / f"log/day={day}/part.csv").write_text(text)
    with caplog.at_level(logging.WARNING):
        assert len(read(tmp_path, behaviors={"files": "log"}).behaviors) == 2
    assert "day=2022-04-26/part.csv is empty (0 bytes)" in caplog.text


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    write(tmp_path)
    run = scan._run

    def append_meanwhile(connection, sql, parameters, found):
        rows = run(connection, sql, parameters, found)
        with found.files[0].open("a") as file:
            file.write("9,10,5\n")
        return rows

    monkeypatch.setattr(scan, "_run", append_meanwhile)
    with pytest.raises(InputError, match=r"visits.csv changed while it was read"):
        read(tmp_path)


def test_a_log_that_changes_between_its_reading_as_behaviours_and_as_impressions_is_an_error(
    tmp_path, monkeypatch
):
    write(tmp_path)
    load = reader.load

    def append_after_behaviors(connection, name, *arguments, **options):
        broken = load(connection, name, *arguments, **options)
        if name == "raw_behaviors_0":
            with (tmp_path / "shown.csv").open("a") as file:
                file.write("2,10,90001,1,top\n")
        return broken

    monkeypatch.setattr(reader, "load", append_after_behaviors)
    behaviors = {"files": "shown.csv", "where": {"label": 1}}
    with pytest.raises(InputError, match=r"shown.csv changed while it was read"):
        read(tmp_path, behaviors=behaviors)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"files": "x.csv", "user_column": "u"}, "user_column"),
        ({"files": []}, "at least 1 item"),
        ({"files": "x.csv", "time": {"column": "t", "unit": "minutes"}}, "'seconds', 'milliseconds' or 'microseconds'"),
        ({"files": "x.csv", "time": {"column": "t", "zone": "Europe/Berlim"}}, "'Europe/Berlim' is no time zone"),
        ({"files": "x.csv", "time": {"column": "t", "unit": "seconds", "format": "%Y"}}, "unit is for numbers"),
        ({"files": "x.csv", "item": "i", "sequence": "s"}, "not both"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_declaration_is_found_before_anything_is_read(block, message):
    with pytest.raises(ValidationError, match=message):
        Source.model_validate({"behaviors": block})
