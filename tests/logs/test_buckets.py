import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from deep_interest.logs.buckets import borders_of, bucketise
from deep_interest.logs.encoding import FeatureColumns


def test_a_border_begins_its_bucket_and_missing_stays_missing():
    column = pd.Series([17.0, 18, 24.9, 25, 99, np.nan])
    assert bucketise(column, (18, 25)).to_list()[:5] == [0, 1, 1, 2, 2]
    assert bucketise(column, (18, 25)).isna().tolist() == [False] * 5 + [True]


def test_a_number_of_buckets_splits_the_known_rows_evenly_and_nothing_else_moves_the_borders():
    known = np.arange(12) < 8
    column = pd.Series([1.0, 2, 3, 4, 5, 6, 7, 8, 1000, 1001, 1002, -5])
    assert bucketise(column, borders_of(column, 4, known)).to_list() == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 0]


def test_equal_values_are_never_parted():
    column = pd.Series([5.0] * 9 + [6.0])
    assert bucketise(column, borders_of(column, 5)).nunique() <= 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"buckets": {"price": 10}}, "price is not a feature"),
        ({"item": ["price"], "buckets": {"price": [3, 2]}}, "borders must be increasing"),
        ({"item": ["price"], "buckets": {"price": 1}}, "greater than or equal to 2"),
        ({"item": ["Waren gruppe"]}, "'Waren gruppe' is not a valid feature name"),
    ],
)
def test_a_mistake_in_the_features_is_found_at_once(columns, message):
    with pytest.raises(ValidationError, match=message):
        FeatureColumns.model_validate(columns)


def test_goods_is_an_alias_of_item_id():
    former = FeatureColumns.model_validate(
        {"item": ["goods", "price"], "behavior": ["goods"], "buckets": {"price": 3}}
    )
    assert former == FeatureColumns(item=("item_id", "price"), behavior=("item_id",), buckets={"price": 3})
