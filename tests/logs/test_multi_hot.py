"""Fields with several values per row: how they are split, which values are learned, and how they are stored."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from support.logs import encoded, tables_of

from deep_interest.logs.encoding import behavior_log, code_column, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.multi_hot import MultiHot, ValueSets
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.storage import load_features, save_features
from deep_interest.logs.vocabulary import FieldVocabularies

TAGS = FeatureColumns(item=("item_id", "tags"), multi_hot={"tags": "|"})


def sets_of(value_sets: ValueSets) -> list[list[int]]:
    bounds = value_sets.offsets.tolist()
    return [value_sets.values[begin:end].tolist() for begin, end in pairwise(bounds)]


def texts_of(coded, vocabularies, name):
    """The values of each row, as texts; 'unknown' for code 0."""
    values = ["unknown", *vocabularies.fields[name].vocabulary.values]
    sets = sets_of(coded.value_sets)
    return [[values[code] for code in sets[value_set]] for value_set in coded.codes]


@pytest.mark.parametrize("dtype", ["str", object])
def test_a_value_set_is_the_set_of_its_values_whatever_their_order_blanks_and_repetitions(dtype):
    column = pd.Series(["b|a", "a", None, "a | b|a", "", "||c", "ü|b"], dtype=dtype)
    vocabularies = FieldVocabularies()
    coded = code_column(vocabularies, "tags", column, TAGS)
    assert coded.field.model_dump() == {"name": "tags", "size": 5, "pooling": "sum"}
    expected = [["a", "b"], ["a"], ["unknown"], ["a", "b"], ["unknown"], ["c"], ["b", "ü"]]
    assert texts_of(coded, vocabularies, "tags") == expected
    assert coded.unknown.tolist() == [False, False, True, False, True, False, False]


def test_training_learns_the_values_of_its_own_rows_and_others_are_left_out_of_a_value_set():
    vocabularies = FieldVocabularies()
    column = pd.Series(["a|b", "b|new", "new"])
    coded = code_column(vocabularies, "tags", column, TAGS, np.array([True, False, False]))
    assert texts_of(coded, vocabularies, "tags") == [["a", "b"], ["b"], ["unknown"]]
    assert coded.field.size == 3


def test_a_vocabulary_that_grows_keeps_its_codes_and_a_smaller_one_knows_less_of_a_value_set():
    vocabularies = FieldVocabularies()
    code_column(vocabularies, "tags", pd.Series(["b|d"]), TAGS)
    coded = code_column(vocabularies, "tags", pd.Series(["a|b", "d|a", "a"]), TAGS)
    assert sets_of(coded.value_sets)[1:] == [[3], [1, 3], [2, 3]]
    assert sets_of(coded.value_sets.within(3))[1:] == [[0], [1], [2]]
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    later = code_column(frozen, "tags", pd.Series(["z|b", "z"]), TAGS)
    assert sets_of(later.value_sets)[1:] == [[0], [1]]


def test_behaviours_carry_the_value_sets_of_their_items_and_all_comes_back_from_disk(tmp_path):
    tables = tables_of([("u", 1, 1), ("u", 2, 2), ("u", 3, 3)])
    tables.items["tags"] = ["x|y", "y", None]
    log = encoded(tables)
    features = encode_features(tables, log, TAGS)
    save_features(features, tmp_path / "features")
    loaded = load_features(tmp_path / "features")
    assert loaded.schema == features.schema
    assert loaded.schema.behavior[1].pooling == "sum"
    assert loaded.schema.tables["tags"] == 3
    value_sets = sets_of(loaded.value_sets["tags"])
    history = behavior_log(log, loaded).history(1, 3, max_len=10)
    assert [value_sets[value_set] for value_set in history["tags"]] == [[1, 2], [2], [0]]


def test_the_value_sets_of_context_and_profile_are_known_to_the_samples():
    day = 86_400
    tables = tables_of(
        [("u", 1, 1)], impressions=[("u", 1, 5, 0, "top,left"), ("v", 1, day, 1, "top,new"), ("u", 1, 2 * day, 1, "left")]
    )  # fmt: skip
    tables = tables.__class__(
        tables.behaviors, tables.items, pd.DataFrame({"user": ["u", "v"], "likes": ["tea,wine", "tea"]}), tables.impressions
    )  # fmt: skip
    columns = FeatureColumns(
        item=("item_id",), profile=("likes",), context=("pid",),
        multi_hot={"likes": {"separator": ",", "pooling": "mean"}, "pid": ","},
    )  # fmt: skip
    log = encoded(tables)
    made = impression_samples(tables.impressions, log, ProtocolParameters(name="by_day"), features=columns)
    features = encode_features(tables, log, columns, context=made.context)
    shown = sets_of(features.value_sets["pid"])
    by_user = dict(
        zip(made.samples.time.tolist(), (shown[value_set] for value_set in made.columns["pid"]), strict=True)
    )
    assert by_user == {5: [1, 2], day: [2], 2 * day: [1]}  # left is 1, top 2; new is of the validation day
    likes = sets_of(features.value_sets["likes"])
    assert [likes[value_set] for value_set in features.users["likes"]] == [[0], [1, 2], [1]]
    assert features.schema.profile[0].pooling == "mean"
    assert features.schema.multi_hot == {"likes", "pid"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"multi_hot": {"tag": "|"}}, "multi_hot: tag is not a feature; the features are item_id, category"),
        ({"multi_hot": {"item_id": "|"}}, "multi_hot: item_id has a single value"),
        (
            {"multi_hot": {"category": "|"}, "buckets": {"category": 3}},
            "multi_hot: category has a single value",
        ),
        ({"multi_hot": {"category": ""}}, "at least 1 character"),
        ({"multi_hot": {"category": {"pooling": "max"}}}, "'sum' or 'mean'"),
    ],
)
def test_a_mistake_in_the_declaration_is_found_at_once(given, message):
    with pytest.raises(ValidationError, match=message):
        FeatureColumns(**given)


def test_a_string_is_short_for_its_separator():
    assert MultiHot.model_validate(",") == MultiHot(separator=",", pooling="sum")
