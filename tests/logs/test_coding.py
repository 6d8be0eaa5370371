"""Codes of items, users and contexts as whole tables, and the same back from disk."""

import json

import numpy as np
import pandas as pd
import pytest
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.buckets import borders_of, bucketise
from deep_interest.logs.coverage import Uncovered, uncovered_values, unknown_fields
from deep_interest.logs.encoded_log import EncodedLog, encode_log
from deep_interest.logs.encoding import CodedColumn, behavior_log, code_column, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.multi_hot import SplitColumn, ValueSets
from deep_interest.logs.samples import TEST, TRAIN, VALIDATION, Samples
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.storage import load_features, load_log, save_features, save_log
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary

ROWS = [("u", 1, 1), ("u", 3, 2), ("v", 2, 1)]


def shop():
    """Items 1 to 4 with a price, a shop and tags; users u and v with an age; the second item and user are unknown to training."""
    tables = tables_of(ROWS, items=4)
    items = tables.items.assign(
        price=[5.0, 1.0, 9.0, np.nan], shop=["x", "y", "x", None], tags=["a|b", "z", "b", None]
    )
    users = pd.DataFrame({"user": ["v", "u"], "age": [30, 40]})
    return CanonicalTables(tables.behaviors, items, users, None)


COLUMNS = FeatureColumns(
    item=("item_id", "price", "shop", "tags"), behavior=("item_id", "tags"), profile=("user_id", "age"),
    buckets={"price": (2.0, 6.0)}, multi_hot={"tags": {"separator": "|", "pooling": "mean"}},
)  # fmt: skip


def features_of(**options):
    tables = shop()
    log = encoded(tables)
    return log, encode_features(tables, log, COLUMNS, **options)


def lists(tables):
    return {name: codes.tolist() for name, codes in tables.items()}


def test_every_code_of_items_and_users():
    log, features = features_of()
    assert lists(features.items) == {
        "item_id": [0, 1, 2, 3, 4], "price": [0, 2, 1, 3, 0], "shop": [0, 1, 2, 1, 0], "tags": [0, 1, 3, 2, 0],
    }  # fmt: skip
    assert lists(features.users) == {"user_id": [0, 1, 2], "age": [0, 2, 1]}
    assert all(codes.dtype == np.int32 for codes in (*features.items.values(), *features.users.values()))
    assert features.schema == FeatureSchema(
        item=(Field(name="item_id", size=5), Field(name="price", size=4), Field(name="shop", size=3), Field(name="tags", size=4, pooling="mean")),
        behavior=(Field(name="item_id", size=5), Field(name="tags", size=4, pooling="mean")),
        profile=(Field(name="user_id", size=3), Field(name="age", size=3)),
    )  # fmt: skip
    assert features.value_sets["tags"].offsets.tolist() == [0, 1, 3, 4, 5]
    assert features.value_sets["tags"].values.tolist() == [0, 1, 2, 2, 3]
    assert lists(behavior_log(log, features).fields) == {"item_id": [1, 3, 2], "tags": [1, 2, 3]}


def test_values_of_unknown_items_and_users_are_not_learnt():
    known_items, known_users = np.array([0, 1, 0, 1, 1], bool), np.array([0, 1, 0], bool)
    _, features = features_of(known_items=known_items, known_users=known_users)
    assert lists(features.items) == {
        "item_id": [0, 1, 0, 2, 3], "price": [0, 1, 0, 2, 0], "shop": [0, 1, 0, 1, 0], "tags": [0, 1, 3, 2, 0],
    }  # fmt: skip
    assert lists(features.users) == {"user_id": [0, 1, 0], "age": [0, 1, 0]}
    assert {field.name: field.size for field in features.schema.item} == {
        "item_id": 4,
        "price": 3,
        "shop": 2,
        "tags": 3,
    }
    assert features.value_sets["tags"].known.tolist() == [False, True, True, False]


def test_all_item_fields_are_a_behaviours_if_none_is_named():
    tables = tables_of(ROWS)
    features = encode_features(tables, encoded(tables), FeatureColumns())
    assert [field.name for field in features.schema.behavior] == ["item_id", "category"]
    assert features.users == {}
    named = encode_features(tables, encoded(tables), FeatureColumns(behavior=("category",)))
    assert [field.name for field in named.schema.behavior] == ["category"]


def test_a_coded_context_joins_the_schema_with_its_cells():
    tables, cells = shop(), ValueSets.of(np.array([0, 1]), np.array([1]))
    context = {
        "place": CodedColumn(Field(name="place", size=7), np.array([1])),
        "kinds": CodedColumn(Field(name="kinds", size=2, pooling="sum"), np.array([1]), cells),
    }  # fmt: skip
    features = encode_features(tables, encoded(tables), COLUMNS, context=context)
    assert features.schema.context == (
        Field(name="place", size=7),
        Field(name="kinds", size=2, pooling="sum"),
    )
    assert set(features.value_sets) == {"tags", "kinds"}
    assert features.value_sets["kinds"] is cells


def test_vocabularies_of_an_earlier_time_keep_their_codes():
    vocabularies = FieldVocabularies()
    vocabularies.learn("item_id", pd.Series([3, 9]))
    _, features = features_of(vocabularies=vocabularies)
    assert features.items["item_id"].tolist() == [0, 3, 4, 1, 5]
    assert set(vocabularies.fields) == {"item_id", "price", "shop", "tags", "user_id", "age"}


def test_every_part_of_a_coded_log():
    tables = tables_of([("u", 1, 5, 3.5), ("u", 3, 6, 4.0), ("w", 2, 1, 1.0)], items=3)
    behaviors = tables.behaviors.assign(day=[1, 2, 3])
    tables = CanonicalTables(behaviors, tables.items)
    users = Vocabulary.fit(pd.Series(["u", "v", "w"]))
    log = encode_log(tables, users=users, items=Vocabulary.fit(tables.items["item"]))
    assert log.user.tolist() == [1, 1, 3]
    assert log.item.tolist() == [1, 3, 2]
    assert log.offsets.tolist() == [0, 0, 2, 2, 3]
    assert (log.position.tolist(), log.length.tolist()) == ([0, 1, 0], [0, 2, 0, 1])
    assert (log.time.tolist(), log.day.tolist(), log.rating.tolist()) == (
        [5, 6, 1],
        [1, 2, 3],
        [3.5, 4.0, 1.0],
    )
    assert (log.day.dtype, log.rating.dtype) == (np.int32, np.float32)
    plain = encoded(tables_of(ROWS))
    assert (plain.day, plain.rating) == (None, None)


def test_behaviours_of_items_without_a_row_are_counted_and_the_first_named():
    tables = tables_of([("u", 7, 1), ("u", 8, 2), ("u", 1, 3)], items=3)
    with pytest.raises(InputError, match=r"2 behaviours refer to items without a row, the first is .*7"):
        encoded(tables)


def test_log_and_features_are_plain_arrays_on_disk_that_are_mapped(tmp_path):
    log, features = features_of()
    save_log(behavior_log(log, features), tmp_path / "log")
    save_features(features, tmp_path / "features")
    assert sorted(file.name for file in (tmp_path / "log").glob("*.npy")) == [
        "field.item_id.npy",
        "field.tags.npy",
        "offsets.npy",
    ]
    assert sorted(file.name for file in (tmp_path / "features").glob("*.*")) == [
        "item.item_id.npy", "item.price.npy", "item.shop.npy", "item.tags.npy", "schema.json", "user.age.npy",
        "user.user_id.npy", "value_set_offsets.tags.npy", "value_sets.tags.npy",
    ]  # fmt: skip
    loaded, again = load_log(tmp_path / "log"), load_features(tmp_path / "features")
    assert loaded.offsets.tolist() == log.offsets.tolist()
    assert lists(loaded.fields) == lists(behavior_log(log, features).fields)
    assert (lists(again.items), lists(again.users)) == (lists(features.items), lists(features.users))
    assert again.schema == features.schema
    assert list(again.value_sets) == ["tags"]
    assert again.value_sets["tags"].values.tolist() == features.value_sets["tags"].values.tolist()
    assert again.value_sets["tags"].offsets.tolist() == features.value_sets["tags"].offsets.tolist()
    assert isinstance(loaded.offsets, np.memmap)
    loaded.offsets[0] = 9  # writable in memory, never on disk
    assert load_log(tmp_path / "log").offsets[0] == 0
    text = (tmp_path / "features" / "schema.json").read_text()
    assert json.loads(text)["item"][0] == {"name": "item_id", "size": 5}
    assert text.splitlines()[1].startswith(' "item"')


def test_samples_with_unknown_values_are_found_in_every_field():
    _, features = features_of(
        known_items=np.array([0, 1, 0, 1, 1], bool), known_users=np.array([0, 1, 0], bool)
    )
    samples = Samples(
        user=np.array([1, 2, 0]), item=np.array([1, 2, 4]), label=np.zeros(3), time=np.zeros(3), history_end=np.zeros(3),
        split=np.zeros(3), left_out={},
    )  # fmt: skip
    context = {"place": CodedColumn(Field(name="place", size=3), np.array([0, 1, 2]))}
    found = {name: rows.tolist() for name, rows in unknown_fields(samples, features, context).items()}
    assert found == {
        "item_id": [False, True, False], "price": [False, True, True], "shop": [False, True, True], "tags": [False, True, True],
        "user_id": [False, True, True], "age": [False, True, True], "place": [True, False, False],
    }  # fmt: skip
    assert set(unknown_fields(samples, features)) == {"item_id", "price", "shop", "tags", "user_id", "age"}


def test_uncovered_values_are_listed_by_frequency_for_each_split():
    shown = pd.DataFrame({"place": ["a", "x", "y", "y", None, "x", "a", "z"], "fine": 1})
    split = np.array([TRAIN, VALIDATION, VALIDATION, VALIDATION, VALIDATION, TEST, TEST, TRAIN])
    context = {
        "fine": CodedColumn(Field(name="fine", size=2), np.ones(8, np.int32)),
        "place": CodedColumn(Field(name="place", size=2), np.array([1, 0, 0, 0, 0, 0, 1, 0])),
    }  # fmt: skip
    assert list(uncovered_values(shown, context, split)) == [
        Uncovered("place", "validation", ("y", "x"), 0.75), Uncovered("place", "test", ("x",), 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "share", "listed", "rows"),
    [
        ("abcde", 0.5, "(a, b, c, d, e)", "50.0% of the test rows have"),
        ("abcdef", 1.0, "(a, b, c, d, e, …)", "every test row has"),
    ],
)
def test_a_warning_lists_up_to_five_uncovered_values(values, share, listed, rows):
    text = str(Uncovered("place", "test", tuple(values), share))
    assert listed in text
    assert text.startswith(f"features.context: place: {rows} ")


def test_cells_are_sorted_sets_without_unknown_values_unless_they_have_no_other():
    cells = ValueSets.of(np.array([0, 3, 2, 2, 1]), np.array([5, 2, 5, 0, 0, 3, 0, 4]))
    assert cells.offsets.tolist() == [0, 1, 3, 4, 5, 6]
    assert cells.values.tolist() == [0, 2, 5, 0, 3, 4]
    assert (cells.offsets.dtype, cells.values.dtype) == (np.int64, np.int32)
    assert cells.known.tolist() == [False, True, False, True, True]
    small = cells.within(4)
    assert small.offsets.tolist() == [0, 1, 2, 3, 4, 5]
    assert small.values.tolist() == [0, 2, 0, 3, 0]


def test_a_column_is_split_into_its_distinct_cells():
    split = SplitColumn.of(pd.Series(["b, a", None, "a", "b, a", ",c"]), ",")
    assert split.value_sets.tolist() == [3, 0, 2, 3, 1]
    assert split.lengths.tolist() == [0, 2, 1, 2]
    assert split.strings.astype(object).where(split.strings.notna(), None).tolist() == [
        None,
        "c",
        "a",
        "b",
        "a",
    ]
    assert (split.value_sets.dtype, split.lengths.dtype) == (np.int32, np.int64)
    assert split.known(None) is None
    assert split.known(np.array([0, 1, 1, 0, 0], bool)).tolist() == [False, False, True, False, False]
    assert split.known(np.array([0, 0, 0, 1, 1], bool)).tolist() == [True, True, False, True, True]


def test_quantile_borders_are_of_the_known_numbers_and_given_borders_are_kept():
    column = pd.Series([1.0, 2, 3, 4, np.nan, 100])
    assert borders_of(column, 2) == (3.0,)
    assert borders_of(column, 4, np.arange(6) < 5) == (1.75, 2.5, 3.25)
    assert borders_of(column, (5, 7.5)) == (5.0, 7.5)
    assert all(type(border) is float for border in borders_of(column, (5, 7)))
    assert borders_of(pd.Series([np.nan]), 3) == ()
    assert borders_of(pd.Series([2.0, 2, 2, 5]), 4) == (2.0, 2.75)
    buckets = bucketise(pd.Series([1.0, 5, None, 8], index=[3, 1, 4, 2]), (5, 8))
    pd.testing.assert_series_equal(buckets, pd.Series([0, 1, None, 2], index=[3, 1, 4, 2], dtype="Int64"))


def test_a_frozen_feature_learns_nothing():
    vocabularies = FieldVocabularies()
    code_column(
        vocabularies,
        "price",
        pd.Series([1.0, 2, 3, 4]),
        FeatureColumns(item=("price",), buckets={"price": 2}),
    )
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    coded = code_column(
        frozen, "price", pd.Series([9.0, 0.0, None]), FeatureColumns(item=("price",), buckets={"price": 2})
    )
    assert (coded.codes.tolist(), coded.field) == ([2, 1, 0], Field(name="price", size=3))
    assert coded.unknown.tolist() == [False, False, True]
    assert coded.value_sets is None


def test_positions_and_lengths_of_an_empty_user():
    log = EncodedLog(
        Vocabulary(pd.Index(["a", "b"])), Vocabulary(pd.Index([1])), np.array([0, 0, 0, 2]), np.array([2, 2]), np.array([1, 1]),
        np.array([1, 2]), None,
    )  # fmt: skip
    assert (log.position.tolist(), log.length.tolist()) == ([0, 1], [0, 0, 2])
