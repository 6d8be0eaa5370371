"""Standardised numbers: their codes, and the rows that mean and standard deviation come from."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.encoding import encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import TRAIN
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.standardised import CODES, LIMIT, Standardisation, decode
from deep_interest.logs.vocabulary import FieldVocabularies

PLAIN = Standardisation(0.0, 1.0)
DAY = 86_400


@given(st.lists(st.floats(-8, 8), max_size=20))
def test_a_code_is_z_to_within_half_a_step(values):
    codes = PLAIN.encode(pd.Series(values, dtype=np.float64))
    assert codes.dtype == np.int32
    assert ((codes >= 1) & (codes < CODES)).all()
    assert decode(codes).dtype == np.float32
    np.testing.assert_allclose(decode(codes), values, rtol=0, atol=1 / 8192)


@given(st.lists(st.floats(-1e6, 1e6) | st.none(), max_size=20), st.floats(-1e5, 1e5), st.floats(1e-3, 1e5))
def test_decoding_and_encoding_again_gives_the_same_codes(values, mean, std):
    codes = Standardisation(mean, std).encode(pd.Series(values, dtype=np.float64))
    assert ((codes == 0) == pd.isna(pd.Series(values, dtype=np.float64))).all()
    np.testing.assert_array_equal(PLAIN.encode(pd.Series(decode(codes, missing=np.nan))), codes)


def test_z_is_the_distance_to_the_mean_in_standard_deviations():
    column = pd.Series([2.0, 4, 4, 4, 5, 5, 7, 9])  # mean 5, standard deviation 2
    assert Standardisation.fit(column) == (5.0, 2.0)
    assert decode(Standardisation.fit(column).encode(column)).tolist() == [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2]


def test_z_is_clipped_and_a_missing_value_has_code_0():
    codes = PLAIN.encode(pd.Series([-1e300, -8.1, 8.1, np.inf, -np.inf, np.nan]))
    assert decode(codes).tolist() == [-LIMIT, -LIMIT, LIMIT, LIMIT, -LIMIT, 0]
    assert codes.tolist() == [1, 1, CODES - 1, CODES - 1, 1, 0]
    assert decode(codes, missing=-9)[-1] == -9


@pytest.mark.parametrize("values", [[0.1] * 7, [np.nan] * 3, [], [3.0, np.nan], [1e300, -1e300]])
def test_without_a_deviation_every_z_is_0(values):
    column = pd.Series(values, dtype=np.float64)
    fitted = Standardisation.fit(column)
    assert fitted.std == 0
    assert (decode(fitted.encode(pd.Series([-5.0, 0.1, 1e300]))) == 0).all()


def test_only_known_rows_with_finite_numbers_are_used():
    column = pd.Series([1.0, 3, 100, np.nan, np.inf, 5])
    assert Standardisation.fit(column, np.array([1, 1, 0, 1, 1, 0], bool)) == (2.0, 1.0)


@pytest.mark.slow
@given(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3))
def test_values_of_held_out_days_change_no_code_of_a_training_row(held_out):
    shown = [("a", 1, 9, 0), ("a", 2, 10, 1), ("b", 3, DAY, 0), ("a", 1, 2 * DAY, 1), ("b", 2, 3 * DAY, 1)]
    tables = tables_of([("a", 1, 5), ("a", 3, 6), ("b", 4, 5)], impressions=shown)
    log, features = encoded(tables), FeatureColumns(context=("bid",), standardised=("bid",))

    def codes(values):
        impressions = tables.impressions.sort_values("time").assign(bid=values)
        impressions = impressions.sort_values(["user", "time"]).reset_index(drop=True)
        protocol = ProtocolParameters(name="by_day")
        made = impression_samples(impressions, log, protocol, features=features)
        return made.context["bid"].codes[made.samples.split == TRAIN]

    expected = codes([1.0, 2.0, 6.0, 0.0, 0.0])
    assert len(expected) == 3
    assert len(set(expected)) == 3
    np.testing.assert_array_equal(codes([1.0, 2.0, 6.0, *held_out[:2]]), expected)


def test_items_that_training_does_not_know_have_no_part_in_the_mean():
    tables = tables_of([("u", 1, 1), ("u", 2, 2)], items=3)
    tables.items["price"] = [1.0, 3.0, 1000.0]
    columns = FeatureColumns(item=("item_id", "price"), standardised=("price",))
    vocabularies = FieldVocabularies()
    log, known = encoded(tables), np.array([False, True, True, False])
    features = encode_features(tables, log, columns, known_items=known, vocabularies=vocabularies)
    assert vocabularies.fields["price"].standardisation == (2.0, 1.0)
    assert decode(features.items["price"]).tolist() == [0, -1, 1, LIMIT]
    assert features.items["price"][0] == 0  # the unknown item
    price = Field(name="price", size=2, dense=True)
    assert features.schema.item[1] == features.schema.behavior[1] == price
    assert FeatureSchema.model_validate_json(features.schema.model_dump_json()) == features.schema


def test_a_feature_keeps_mean_and_standard_deviation_when_it_is_learnt_again():
    vocabularies = FieldVocabularies()
    first = vocabularies.learn_standardised("price", pd.Series([1.0, 3.0]))
    again = vocabularies.learn_standardised("price", pd.Series([1.0, 5.0, None]))
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    assert decode(first).tolist() == [-1, 1]
    assert decode(again).tolist() == [-1, 3, 0]
    np.testing.assert_array_equal(frozen.learn_standardised("price", pd.Series([1.0, 5.0, None])), again)
    np.testing.assert_array_equal(vocabularies.fields["price"].encode(pd.Series([1.0, 5.0, None])), again)


def test_a_feature_that_is_no_longer_or_newly_standardised_is_named():
    vocabularies, values = FieldVocabularies(), pd.Series([1.0, 2.0])
    vocabularies.learn_standardised("price", values)
    vocabularies.learn("age", values, buckets=2)
    vocabularies.learn("year", values)
    for name, message in (
        ("age", "features.standardised: age had buckets when"),
        ("year", "year had categories when"),
    ):
        with pytest.raises(InputError, match=message):
            vocabularies.learn_standardised(name, values)
    with pytest.raises(
        InputError, match=r"price was standardised when .*; add price to features.standardised again"
    ):
        vocabularies.learn("price", values, buckets=2)
    with pytest.raises(InputError, match=r"features.standardised: bid: .*'cheap'; all its values must be"):
        vocabularies.learn_standardised("bid", pd.Series(["1", "cheap"]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"standardised": ["price"]}, "standardised: price is not a feature; the features are item_id, category"),
        (
            {"item": ["price"], "standardised": ["price"], "buckets": {"price": 3}},
            "standardised: price is in buckets or multi_hot as well; keep it in only one of the three",
        ),
        (
            {"item": ["tags"], "standardised": ["tags"], "multi_hot": {"tags": "|"}},
            "standardised: tags is in buckets or multi_hot as well",
        ),
        ({"standardised": ["goods"]}, "standardised: item_id is an id, not a quantity"),
        ({"standardised": ["user_id"]}, "standardised: user_id is an id"),
        (
            {"behavior": ["item_id", "gap"], "standardised": ["gap"]},
            "gap is computed and has buckets of its own; remove it from there",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_the_features_is_found_at_once(columns, message):
    with pytest.raises(ValidationError, match=message):
        FeatureColumns.model_validate(columns)


def test_a_dense_field_has_two_rows_and_more_codes():
    field = Field(name="price", size=2, dense=True)
    assert (field.size, field.codes, field.one_hot) == (2, CODES, False)
    plain = Field(name="brand", size=9)
    assert (plain.codes, plain.one_hot) == (9, True)
    assert "dense" not in plain.model_dump()
    with pytest.raises(ValidationError, match="price: a dense field has the size 2"):
        Field(name="price", size=3, dense=True)
