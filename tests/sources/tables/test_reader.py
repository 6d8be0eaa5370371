"""Canonical tables read from declared tables of any layout."""

import pandas as pd
import pytest
from support.tables import declare_impressions, read, write

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables


def test_tables_with_canonical_names_need_only_their_files(tmp_path):
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


def test_columns_may_have_any_name_and_features_may_be_renamed(tmp_path):
    write(tmp_path, items='"Item no.";"Product group, new"\n10;a\n11;b\n')
    items = {"files": "items.csv", "item": "Item no.", "columns": {"kind": "Product group, new"}}
    tables = read(tmp_path, FeatureColumns(item=("item_id", "kind")), items=items)
    assert tables.items.to_dict("list") == {"item": [10, 11], "kind": ["a", "b"]}


def test_where_keeps_matching_rows_and_counts_the_others(tmp_path):
    write(tmp_path, visits="user,item,time,event\n1,10,1,view\n1,11,2,hover\n1,11,3,buy\n1,10,4,\n")
    tables = read(tmp_path, behaviors={"files": "visits.csv", "where": {"event": ["view", "buy"]}})
    assert tables.behaviors["time"].tolist() == [1, 3]
    assert tables.left_out == {"rows of behaviors whose event is not view or buy": 2}


def test_where_without_matching_rows_lists_the_columns_values(tmp_path):
    write(tmp_path, visits="user,item,time,event\n1,10,1,view\n")
    with pytest.raises(InputError, match=r"visits.csv, column event: no row .*\(buy\).*values\s+are view"):
        read(tmp_path, behaviors={"files": "visits.csv", "where": {"event": "buy"}})


def test_a_sequence_becomes_one_behaviour_per_id_up_to_its_time(tmp_path):
    write(tmp_path, visits="user,seen,last\n1,10 11  10,500\n2,,600\n3,11,700\n")
    behaviors = [{"files": "visits.csv", "sequence": "seen", "time": "last"}]
    tables = read(tmp_path, behaviors=behaviors)
    assert tables.behaviors[["user", "item", "time"]].to_numpy().tolist() == [
        [1, 10, 498],
        [1, 11, 499],
        [1, 10, 500],
        [3, 11, 700],
    ]


def test_rows_of_several_blocks_are_concatenated(tmp_path):
    write(tmp_path, more="who,what,at\n3,11,1970-01-01 00:00:07\n")
    more = {"files": "more.csv", "user": "who", "item": "what", "time": "at"}
    tables = read(tmp_path, behaviors=[{"files": "visits.csv"}, more])
    assert tables.behaviors["time"].tolist() == [50_000, 60_000, 7_000]


def test_several_columns_are_joined_into_one_id(tmp_path):
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
        items=[{"files": "items.csv"}, pairs],
    )
    assert tables.behaviors["item"].tolist() == ["7|x", "7|y"]
    assert tables.impressions["item"].tolist() == ["10", "11"]
    assert dict(tables.items.to_numpy().tolist()) == {"10": "a", "11": "b", "7|x": "7", "7|y": "7"}


def test_positive_values_define_the_label(tmp_path):
    write(
        tmp_path,
        impressions="user,item,time,label,place\n1,10,1,click,a\n1,10,2,,a\n1,10,3,buy,a\n1,10,4,skip,a\n",
    )
    tables = read(tmp_path, **declare_impressions(label={"column": "label", "positive": ["click", "buy"]}))
    assert tables.impressions["label"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("written", [("0", "1"), ("false", "true"), ("False", "True"), ("0.0", "1.0")])
def test_a_label_may_be_a_number_or_a_boolean(tmp_path, written):
    write(tmp_path, impressions=f"user,item,time,label,place\n1,10,1,{written[0]},a\n1,10,2,{written[1]},a\n")
    assert read(tmp_path).impressions["label"].tolist() == [0, 1]


def test_ids_that_are_not_plain_64_bit_integers_are_kept_as_strings(tmp_path):
    ids = ["99999999999999999999", "007", "Zoë ☂", "7"]
    write(tmp_path, visits="user,item,time\n" + "".join(f"{name},10,{k}\n" for k, name in enumerate(ids)))
    tables = read(tmp_path)
    assert tables.behaviors["user"].tolist() == ids
    assert tables.impressions["user"].tolist() == ["1", "2"]


def test_integral_floats_are_read_as_integer_ids(tmp_path):
    write(tmp_path)
    pd.DataFrame({"user": [1.0, 2.0, None], "item": [10, 11, 10], "time": [1, 2, 3]}).to_parquet(
        tmp_path / "v.parquet"
    )
    tables = read(tmp_path, behaviors={"files": "v.parquet"}, skip=True)
    assert tables.behaviors["user"].tolist() == [1, 2]
    assert tables.left_out == {"behaviors without a valid user, item, time": 1}


def test_items_without_a_row_get_one_without_features_and_are_counted(tmp_path):
    write(tmp_path, visits="user,item,time\n1,12,50\n1,12,51\n1,10,52\n")
    tables = read(tmp_path)
    assert tables.items["item"].tolist() == [10, 11, 12]
    assert tables.items["category"].isna().tolist() == [False, False, True]
    assert tables.notes == {"behaviors whose item is not in the item table": 2}


def test_users_without_a_profile_are_counted(tmp_path):
    write(tmp_path, people="user,age\n1,30\n")
    tables = read(tmp_path, FeatureColumns(profile=("age",)), users={"files": "people.csv"})
    assert tables.notes == {"impressions whose user is not in the user table": 1}


def test_a_user_with_two_profiles_is_an_error(tmp_path):
    write(tmp_path, people="user,age\n1,30\n2,40\n1,31\n")
    with pytest.raises(InputError, match=r"people.csv: user 1 has several rows"):
        read(tmp_path, FeatureColumns(profile=("age",)), users={"files": "people.csv"})


def test_a_source_may_have_neither_items_nor_impressions(tmp_path):
    write(tmp_path)
    tables = read_tables(
        tmp_path,
        Source.model_validate({"behaviors": {"files": "visits.csv"}}),
        FeatureColumns(item=("item_id",)),
    )
    assert tables.items["item"].tolist() == [10, 11]
    assert tables.impressions is None


def test_repeated_first_keeps_the_first_row_of_each_item(tmp_path):
    write(tmp_path, items="item,category\n10,a\n11,b\n10,c\n")
    with pytest.raises(
        InputError, match=r"items.csv: item 10 has several rows.*source.items.repeated to first"
    ):
        read(tmp_path)
    tables = read(tmp_path, items={"files": "items.csv", "repeated": "first"})
    assert tables.items.to_numpy().tolist() == [[10, "a"], [11, "b"]]
    assert tables.left_out == {"duplicate item ids in items": 1}
