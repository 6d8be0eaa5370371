"""Rows with lists of items, logs without times, composite ids, ratings, and clicks as behaviours."""

import json

import pandas as pd
import pytest
from pydantic import ValidationError
from support.tables import declare_impressions, read, write

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

IDS = FeatureColumns(item=("item_id",))
SHOWN = {"sequence": "shown", "label": {"separator": "-"}}


def source_of(folder, *, skip=False, features=IDS, **declaration):
    source = Source.model_validate(declaration)
    return read_tables(folder, source, features, on_bad_line="skip" if skip else "error")


def rows_of(frame: pd.DataFrame, *columns: str) -> list[list]:
    return frame[list(columns)].to_numpy().tolist()


def test_a_list_of_items_and_labels_becomes_one_impression_per_item(tmp_path):
    write(tmp_path, impressions="user,time,shown,place\n1,100,a-b-1 x-0,top\n2,200,,side\n3,300,x-1,top\n")
    tables = read(tmp_path, **declare_impressions(**SHOWN))
    assert rows_of(tables.impressions, "user", "item", "time", "label", "place") == [
        [1, "a-b", 100, 1, "top"],
        [1, "x", 100, 0, "top"],
        [3, "x", 300, 1, "top"],
    ]


def test_positive_labels_of_a_list_may_be_words(tmp_path):
    write(tmp_path, impressions="user,time,shown,place\n1,100,10:buy|11:skip|11:view,top\n")
    label = {"separator": ":", "positive": ["buy", "view"]}
    tables = read(tmp_path, **declare_impressions(sequence="shown", separator="|", label=label))
    assert rows_of(tables.impressions, "item", "label") == [[10, 1], [11, 0], [11, 1]]
    with pytest.raises(
        InputError, match=r"no row has a value of label.positive \(like\).*values are buy, skip, view"
    ):
        read(
            tmp_path,
            **declare_impressions(sequence="shown", separator="|", label=label | {"positive": "like"}),
        )


@pytest.mark.parametrize(("item", "label"), [("11", {}), ("11-2", {}), ("11", {"positive": "1"})])
def test_an_item_without_a_valid_label_is_an_error_or_skipped(tmp_path, item, label):
    write(tmp_path, impressions=f"user,time,shown,place\n1,100,10-1 {item},top\n")
    declared = declare_impressions(sequence="shown", label={"separator": "-"} | label)
    message = rf"impressions.csv, column shown \(impressions.label\): found 1 .*for example '{item}'.*as in N55689-1"
    with pytest.raises(InputError, match=message):
        read(tmp_path, **declared)
    tables = read(tmp_path, skip=True, **declared)
    assert rows_of(tables.impressions, "item", "label") == [[10, 1]]
    assert tables.left_out == {"impressions without a valid user, item, time, label": 1}


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_lists_may_be_those_of_parquet_and_json(tmp_path, ending):
    rows = [{"user": 1, "time": 500, "seen": ["a b", "c"]}, {"user": 2, "time": 600, "seen": []}]
    pd.DataFrame(rows).to_parquet(tmp_path / "v.parquet")
    (tmp_path / "v.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = source_of(tmp_path, behaviors={"files": f"v.{ending}", "sequence": "seen"})
    assert rows_of(tables.behaviors, "user", "item", "time") == [[1, "a b", 499], [1, "c", 500]]


def test_a_history_is_that_of_the_users_earliest_row_and_ends_before_it(tmp_path):
    write(tmp_path, log="user,time,clicked\n1,900,7 8 9\n2,300,\n1,500,7 8\n")
    tables = source_of(tmp_path, behaviors={"files": "log.csv", "history": "clicked"})
    assert rows_of(tables.behaviors, "user", "item", "time") == [[1, 7, 498], [1, 8, 499]]
    assert tables.left_out == {
        "rows of behaviors with a later clicked of the same user (the first one counts)": 1
    }


def test_a_history_without_a_valid_time_is_an_error_or_passed_over(tmp_path):
    write(tmp_path, log="user,time,clicked\n1,soon,7\n1,500,7 8\n2,40,9\n")
    behaviors = {"files": "log.csv", "history": "clicked"}
    with pytest.raises(InputError, match=r"log.csv, column time.*'soon'"):
        source_of(tmp_path, behaviors=behaviors)
    tables = source_of(tmp_path, skip=True, behaviors=behaviors)
    assert rows_of(tables.behaviors, "user", "item", "time") == [[1, 7, 498], [1, 8, 499], [2, 9, 39]]


def test_the_order_of_the_files_is_the_order_of_time(tmp_path):
    """Positions go through all files in alphabetical order, also if their columns differ, and then through the blocks."""
    (tmp_path / "a.txt").write_text("2 x\n1 y\n1 x\n")
    (tmp_path / "b.csv").write_text("item,user,skip\ny,1,0\nz,1,1\n")
    (tmp_path / "c.csv").write_text("user,item,skip\n1,y,0\n2,w,0\n")
    first = {"files": "a.txt", "names": ["user", "item"], "delimiter": "space", "order": "file"}
    second = {"files": ["c.csv", "b.csv"], "order": "file", "where": {"skip": 0}}
    tables = canonical(source_of(tmp_path, behaviors=[first, second]))
    assert rows_of(tables.behaviors, "user", "item", "time") == [
        [1, "y", 1],
        [1, "x", 2],
        [1, "y", 3],
        [1, "y", 5],
        [2, "x", 0],
        [2, "w", 6],
    ]
    assert "day" not in tables.behaviors
    assert tables.left_out == {"rows of behaviors whose skip is not 0": 1}


def test_a_log_with_one_list_per_line_may_have_no_times(tmp_path):
    (tmp_path / "sessions.tsv").write_text("s2\tb a b\ns1\ta\ns2\tc\n")
    behaviors = {
        "files": "sessions.tsv",
        "names": ["session", "items"],
        "user": "session",
        "sequence": "items",
        "order": "file",
    }
    tables = canonical(source_of(tmp_path, behaviors=behaviors))
    assert rows_of(tables.behaviors, "user", "item", "time") == [
        ["s1", "a", 3],
        ["s2", "b", 0],
        ["s2", "a", 1],
        ["s2", "b", 2],
        ["s2", "c", 4],
    ]


def test_columns_of_a_composite_user_are_joined_without_ambiguity(tmp_path):
    users = ["a|b,c", "a,b|c", "a\\|b,c", "a\\,b|c", "7,8", "7,"]
    write(
        tmp_path,
        log="shop,customer,item,time\n" + "".join(f"{user},10,{k}\n" for k, user in enumerate(users)),
        people="shop,customer,plan\n" + "".join(f"{user},p{k}\n" for k, user in enumerate(users[:5])),
    )
    tables = source_of(
        tmp_path, skip=True, features=FeatureColumns(item=("item_id",), profile=("plan",)),
        behaviors={"files": "log.csv", "user": ["shop", "customer"]}, users={"files": "people.csv", "user": ["shop", "customer"]},
    )  # fmt: skip
    assert tables.behaviors["user"].tolist() == [r"a\|b|c", r"a|b\|c", r"a\\\|b|c", r"a\\|b\|c", "7|8"]
    assert tables.users["user"].tolist() == tables.behaviors["user"].tolist()
    assert tables.left_out == {"behaviors without a valid user, item, time": 1}


def test_a_missing_part_of_a_composite_user_is_named(tmp_path):
    write(tmp_path, log="shop,customer,item,time\n7,8,10,5\n7,,10,6\n")
    behaviors = {"files": "log.csv", "user": ["shop", "customer"]}
    with pytest.raises(InputError, match=r"column shop \+ customer \(behaviors.user\): found 1 row"):
        source_of(tmp_path, behaviors=behaviors)
    with pytest.raises(
        InputError, match=r"column costumer \(source.behaviors.user\) not found.*mean customer"
    ):
        source_of(tmp_path, behaviors=behaviors | {"user": ["shop", "costumer"]})


def test_ratings_are_numbers_in_the_files_notation(tmp_path):
    write(tmp_path, log="user;item;time;stars\n1;10;5;4,5\n1;11;6;\n1;12;7;3\n")
    behaviors = {"files": "log.csv", "rating": "stars", "decimal": "comma"}
    with pytest.raises(InputError, match=r"column stars \(behaviors.rating\).*expected a number"):
        source_of(tmp_path, behaviors=behaviors)
    tables = source_of(tmp_path, skip=True, behaviors=behaviors)
    assert tables.behaviors["rating"].tolist() == [4.5, 3.0]
    assert tables.left_out == {"behaviors without a valid user, item, time, rating": 1}


def test_clicks_are_the_behaviours_of_a_source_without_behaviours(tmp_path):
    write(tmp_path)
    declared = {"items": {"files": "items.csv"}, "impressions": {"files": "impressions.csv"}}
    tables = source_of(tmp_path, **declared)
    assert rows_of(tables.behaviors, "user", "item", "time", "day") == [[2, 11, 90000, 1]]
    assert tables.notes == {"clicks that count as behaviors (source.behaviors is not declared)": 1}
    assert len(tables.impressions) == 2
    write(tmp_path, impressions="user,item,time,label\n1,10,5,0\n")
    with pytest.raises(InputError, match=r"impressions.csv: no impression is clicked, and source.behaviors"):
        source_of(tmp_path, **declared)


def test_clicks_may_be_added_to_declared_behaviours(tmp_path):
    write(tmp_path)
    tables = read(tmp_path, clicks_as_behaviors=True)
    assert rows_of(tables.behaviors, "user", "item", "time", "day") == [[1, 10, 50, 0], [2, 11, 60, 0], [2, 11, 90000, 1]]  # fmt: skip
    assert tables.notes == {"clicks that count as behaviors (source.clicks_as_behaviors)": 1}
    assert len(read(tmp_path).behaviors) == 2


ORDERED = {"files": "x.csv", "order": "file"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "declare behaviors .* impressions .* or both"),
        ({"behaviors": ORDERED | {"time": "at"}}, "a log without times, but time is set as well"),
        ({"behaviors": ORDERED | {"history": "h"}}, "a log without times, but history is set as well"),
        ({"behaviors": [ORDERED, {"files": "y.csv"}]}, "either all blocks have times or all have order: file"),
        ({"behaviors": ORDERED, "impressions": {"files": "y.csv"}}, "order: file declares a log without times"),
        ({"behaviors": {"files": "x.csv", "sequence": "s", "rating": "r"}}, "rating needs one behaviour per row"),
        ({"behaviors": {"files": "x.csv", "sequence": "s", "history": "h"}}, "not both"),
        ({"behaviors": {"files": "x.csv"}, "clicks_as_behaviors": True}, "no impressions are declared; declare them"),
        ({"impressions": {"files": "x.csv"}, "clicks_as_behaviors": False}, "leaves no behaviours"),
        ({"impressions": {"files": "x.csv", "item": "i", "sequence": "s"}}, "not both"),
        ({"impressions": {"files": "x.csv", "sequence": "s"}}, "needs its labels: set label to {separator: '-'}"),
        ({"behaviors": {"files": "x.csv", "decimal": "yes"}}, "'yes' is not a mark in numbers; expected point or comma"),
        ({"impressions": {"files": "x.csv", "label": {"separator": "-"}}}, "set sequence to the column"),
        ({"impressions": {"files": "x.csv", "label": {"column": "c", "separator": "-"}}}, "one of them"),
        ({"impressions": {"files": "x.csv", "label": {}}}, "one of them"),
        ({"behaviors": {"files": "x.csv", "delimiter": ",,,,,"}}, "',,,,,' is not a delimiter.*tab, comma, semicolon"),
        ({"behaviors": {"files": "x.csv", "quote": "''"}}, "is not a quote; expected one character, or none"),
        ({"behaviors": {"files": "x.csv", "delimiter": "'", "quote": "'"}}, "must differ"),
        ({"behaviors": {"files": "x.csv", "decimal": "comma", "thousands": ","}}, "both ','"),
        ({"behaviors": {"files": "x.csv", "thousands": "."}}, "decimal: comma with thousands: point"),
        ({"behaviors": {"files": "x.csv", "encoding": "cp12521"}}, "'cp12521' is not an encoding; .*cp1252"),
        ({"behaviors": {"files": "x.csv", "encoding": "base64"}}, "is not an encoding"),
    ],
)  # fmt: skip
def test_a_contradictory_declaration_is_one_sentence(source, message):
    with pytest.raises(ValidationError, match=message) as caught:
        Source.model_validate(source)
    assert caught.value.error_count() == 1


@pytest.mark.parametrize("quote", ["none", "off", False, None, ""])
def test_quoting_is_off_however_yaml_reads_it(quote):
    source = Source.model_validate({"behaviors": {"files": "x.csv", "quote": quote}})
    assert source.behaviors[0].quote == ""


def test_by_day_refuses_a_log_without_times():
    block = {"title": "T", "source": {"behaviors": ORDERED}}
    for name in ("next_item", "last_item", "rated"):
        DatasetParameters.model_validate(block | {"protocol": {"name": name}})
    with pytest.raises(
        ValidationError, match=r"protocol by_day splits by day, but .*a log without times"
    ) as caught:
        DatasetParameters.model_validate(block | {"protocol": {"name": "by_day"}})
    assert caught.value.error_count() == 1


def sequences_of(folder, text):
    (folder / "log.csv").write_text(text)
    return source_of(folder, behaviors={"files": "log.csv", "sequence": "seen"})


def test_lists_as_python_writes_them_are_read(tmp_path):
    text = "user,seen,time\n1,\"['a', 'b c']\",5\n2,\"[7, 8]\",6\n3,[],7\n"
    tables = sequences_of(tmp_path, text)
    assert tables.behaviors["item"].tolist() == ["a", "b c", "7", "8"]
    items = "item,tags\n10,\"['new', 'fair']\"\n11,x|y\n"
    write(tmp_path, items=items)
    tags = FeatureColumns(item=("item_id", "tags"), multi_hot={"tags": "|"})
    assert read(tmp_path, tags).items["tags"].tolist()[:2] == ["new|fair", "x|y"]


def test_lists_as_numpy_writes_them_are_an_error(tmp_path):
    with pytest.raises(
        InputError,
        match=r"column seen: found 1 list\(s\) in brackets that are not JSON, for example '\[1 2 3\]'",
    ):
        sequences_of(tmp_path, "user,seen,time\n1,[1 2 3],5\n2,4 5,6\n")
