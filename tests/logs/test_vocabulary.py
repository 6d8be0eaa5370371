import numpy as np
import pandas as pd
import pytest

from deep_interest.logs.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("values", "column", "codes"),
    [
        (["b", "a", "b"], ["a", "b", "z", None], [1, 2, 0, 0]),
        (["b", "a", "b"], [], []),
        (["b", "a"], [1, 2], [0, 0]),
        ([30, 10, 20], [10, 20, 30, 40, 15], [1, 2, 3, 0, 0]),
        ([5, 6, 7], [4, 5, 6, 7, 8], [0, 1, 2, 3, 0]),
        ([2.5, 1.5], [1.5, 2.5, 9.0], [1, 2, 0]),
    ],
)
def test_known_values_get_dense_codes_and_others_are_unknown(values, column, codes):
    vocabulary = Vocabulary.fit(pd.Series(values))
    encoded = vocabulary.encode(pd.Series(column))
    np.testing.assert_array_equal(encoded, codes)
    assert encoded.dtype == np.int32
    assert len(vocabulary) == len(set(values)) + 1


def test_codes_do_not_depend_on_the_order_of_the_rows():
    one = Vocabulary.fit(pd.Series(["x", "y", "z"]))
    other = Vocabulary.fit(pd.Series(["z", "x"]), pd.Series(["y", "x"]))
    assert list(one.values) == list(other.values)


def test_ids_above_two_to_the_24_stay_distinct():
    ids = pd.Series([2**24, 2**24 + 1, 2**40])
    assert sorted(Vocabulary.fit(ids).encode(ids)) == [1, 2, 3]


def test_an_empty_column_knows_only_unknown():
    vocabulary = Vocabulary.fit(pd.Series([], dtype="int64"))
    assert list(vocabulary.encode(pd.Series([1, 2]))) == [0, 0]
    assert len(vocabulary) == 1
