"""Codes of a few ids: the same as the vocabulary's."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.logs.vocabulary import Vocabulary
from deep_interest.serving.id_lookup import IdLookup

INTEGERS = st.integers(-(2**62), 2**62)
RANGE = st.integers(-5, 20)


def codes(known, ids):
    """Codes of a lookup, and of the vocabulary itself."""
    dtype = "str" if known and isinstance(known[0], str) else None
    vocabulary = Vocabulary.fit(pd.Series(known, dtype=dtype))
    return IdLookup(vocabulary)(ids, "items"), vocabulary.encode(pd.Series(ids, dtype=dtype))


@pytest.mark.slow
@given(st.lists(INTEGERS, min_size=1), st.lists(INTEGERS, min_size=1), st.data())
def test_numbers_have_the_codes_of_the_vocabulary(known, others, data):
    ids = data.draw(st.lists(st.sampled_from(known + others), min_size=1))
    found, expected = codes(known, ids)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int32


@given(st.integers(-3, 3), st.lists(RANGE, min_size=1))
def test_consecutive_numbers_have_the_codes_of_the_vocabulary(first, ids):
    found, expected = codes(list(range(first, first + 7)), ids)
    np.testing.assert_array_equal(found, expected)


@given(st.lists(st.text(max_size=3), min_size=1), st.lists(st.text(max_size=3), min_size=1))
def test_strings_have_the_codes_of_the_vocabulary(known, ids):
    found, expected = codes(known, ids)
    np.testing.assert_array_equal(found, expected)


def test_values_added_later_keep_their_codes():
    vocabulary = Vocabulary.fit(pd.Series([5, 9])).extended(pd.Series([7, 6]))
    assert IdLookup(vocabulary)([5, 9, 6, 7, 8], "items").tolist() == [1, 2, 3, 4, 0]


def test_missing_fractional_and_huge_numbers_are_unknown():
    lookup = IdLookup(Vocabulary.fit(pd.Series([1, 2, 3])))
    assert lookup([None, 2, 2.5, 10**30, 3.0], "items").tolist() == [0, 2, 0, 0, 3]
    sparse = IdLookup(Vocabulary.fit(pd.Series([1, 2, 30])))
    assert sparse([None, 2, 2.5, 10**30, 30.0], "items").tolist() == [0, 2, 0, 0, 3]


def test_an_empty_vocabulary_knows_nothing():
    assert IdLookup(Vocabulary(pd.Index([])))(["a", "b"], "items").tolist() == [0, 0]


@pytest.mark.parametrize(("known", "ids"), [([1, 2], ["1"]), (["a"], [1]), ([1], [True])])
def test_an_id_of_another_type_is_an_error(known, ids):
    with pytest.raises(InputError, match=r"items: found .*, as in the source"):
        codes(known, ids)
