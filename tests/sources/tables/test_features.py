"""Feature values: value sets, numbers and missing values."""

import pandas as pd
import pytest
from support.tables import read, write

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns


@pytest.mark.slow
def test_a_value_set_may_be_a_string_or_a_list(tmp_path):
    write(tmp_path, items="item,tags\n10, a|b c\n11,\n12,39\n13,[x\n")
    lists = [["a", "b c"], [], ["39"], ["[x"]]
    frame = pd.DataFrame({"item": [10, 11, 12, 13], "tags": lists})
    frame.to_parquet(tmp_path / "items.parquet")
    frame.to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    pd.DataFrame({"item": [10, 11], "tags": [[7, 8], None]}).to_parquet(tmp_path / "numbers.parquet")
    features = FeatureColumns(item=("item_id", "tags"), multi_hot={"tags": "|"})
    for file in ("items.csv", "items.parquet", "items.jsonl"):
        tags = read(tmp_path, features, items={"files": file}).items["tags"]
        assert tags.str.strip().fillna("missing").tolist() == ["a|b c", "missing", "39", "[x"]
    tags = read(tmp_path, features, items={"files": "numbers.parquet"}).items["tags"]
    assert tags[:2].fillna("missing").tolist() == ["7|8", "missing"]


def test_a_list_value_that_contains_the_separator_is_an_error(tmp_path):
    write(tmp_path)
    frame = pd.DataFrame({"item": [10, 11], "tags": [["a|b"], ["c"]]})
    frame.to_parquet(tmp_path / "items.parquet")
    features = FeatureColumns(item=("item_id", "tags"), multi_hot={"tags": "|"})
    with pytest.raises(
        InputError, match=r"column tags: found 1 list value\(s\) that contain the separator '\|', for example 'a\|b'; set features.multi_hot.tags"
    ):  # fmt: skip
        read(tmp_path, features, items={"files": "items.parquet"})


@pytest.mark.slow
def test_nan_in_a_parquet_file_is_a_missing_value(tmp_path):
    write(tmp_path, items="item,category,price\n10,a,1.5\n11,b,2\n")
    nan = float("nan")
    pd.DataFrame({"item": [10, 11], "price": [1.5, nan]}).to_parquet(tmp_path / "items.parquet")
    features = FeatureColumns(item=("item_id", "price"), buckets={"price": 3})
    assert read(tmp_path, features, items={"files": "items.parquet"}).items["price"].isna().tolist() == [
        False,
        True,
    ]
    shown = pd.read_csv(tmp_path / "impressions.csv")
    for column, message in (
        ("label", "expected 0 or 1"),
        ("time", "expected a time"),
        ("user", "expected an id"),
    ):
        shown.assign(**{column: [1.0, nan]}).to_parquet(tmp_path / "impressions.parquet")
        with pytest.raises(InputError, match=rf"column {column} .*: found 1 (invalid|row).*{message}"):
            read(tmp_path, impressions={"files": "impressions.parquet"})


def test_buckets_of_values_that_are_not_numbers_are_an_error(tmp_path):
    write(tmp_path, items="item,category,price\n10,a,1.5\n11,b,cheap\n")
    features = FeatureColumns(item=("item_id", "price"), buckets={"price": 3})
    with pytest.raises(
        InputError,
        match=r"items.csv, column price: found 1 value\(s\) that are not numbers, for example 'cheap'",
    ):
        read(tmp_path, features)


def test_standardised_features_are_numbers_too(tmp_path):
    features = FeatureColumns(item=("item_id", "price"), standardised=("price",))
    write(tmp_path, items="item,category,price\n10,a,1.5\n11,b,\n")
    prices = read(tmp_path, features).items["price"]
    assert prices.dtype == float
    assert prices.isna().tolist() == [False, True]
    write(tmp_path, items="item,category,price\n10,a,1.5\n11,b,cheap\n")
    message = (
        r"items.csv, column price: found 1 value\(s\) that are not numbers, for example 'cheap'; features.standardised needs numbers. "
        "Fix the values, or remove price from features.standardised."
    )
    with pytest.raises(InputError, match=message):
        read(tmp_path, features)


ACTIONS = "user,item,time,action,stay\n1,10,50,view,3.5\n2,11,60,buy,\n"


def test_columns_of_behaviours_are_features_of_them(tmp_path):
    write(tmp_path, visits=ACTIONS)
    features = FeatureColumns(behavior=("item_id", "action", "dwell", "hour", "gap"), buckets={"dwell": 2})
    tables = read(tmp_path, features, behaviors={"files": "visits.csv", "columns": {"dwell": "stay"}})
    assert tables.behaviors[["action", "hour"]].to_numpy().tolist() == [["view", 0], ["buy", 0]]
    assert tables.behaviors["dwell"].isna().tolist() == [False, True]
    assert tables.behaviors["dwell"][0] == 3.5
    assert "gap" not in tables.behaviors


def test_a_rating_is_a_feature_without_a_second_column(tmp_path):
    write(tmp_path, visits="user,item,time,stars\n1,10,50,4\n2,11,60,2.5\n")
    tables = read(
        tmp_path,
        FeatureColumns(behavior=("item_id", "rating")),
        behaviors={"files": "visits.csv", "rating": "stars"},
    )
    assert tables.behaviors["rating"].tolist() == [4.0, 2.5]
    assert list(tables.behaviors).count("rating") == 1


def test_a_column_that_only_some_files_have_is_unknown_in_the_others(tmp_path):
    write(tmp_path, visits=ACTIONS, old="user,item,time\n3,10,1\n")
    tables = read(
        tmp_path,
        FeatureColumns(behavior=("item_id", "action")),
        behaviors=[{"files": "visits.csv"}, {"files": "old.csv"}],
    )
    assert tables.behaviors["action"].fillna("none").tolist() == ["view", "buy", "none"]


def test_clicks_that_are_behaviours_bring_their_columns(tmp_path):
    shown = "user,item,time,label,dwell\n1,10,100,1,7\n2,11,90000,0,0\n"
    write(tmp_path, visits="user,item,time,dwell\n1,10,50,3\n", impressions=shown)
    features = FeatureColumns(behavior=("item_id", "dwell"), buckets={"dwell": 2})
    tables = read(tmp_path, features, clicks_as_behaviors=True)
    assert tables.behaviors[["time", "dwell"]].to_numpy().tolist() == [[50, 3], [100, 7]]
    assert "dwell" not in tables.impressions
    only_clicks = read(tmp_path, features, behaviors=[])
    assert only_clicks.behaviors[["time", "dwell"]].to_numpy().tolist() == [[100, 7]]


def test_a_feature_of_behaviours_that_no_file_has_is_named_with_the_key_to_set(tmp_path):
    write(tmp_path, visits=ACTIONS)
    message = (
        r"behaviors: feature column\(s\) acton not found; the columns are user, item, time, action, stay; name its column, "
        r"source.behaviors.columns: \{acton: action\}, or remove acton from features.behavior"
    )
    with pytest.raises(InputError, match=message):
        read(tmp_path, FeatureColumns(behavior=("item_id", "acton")))
