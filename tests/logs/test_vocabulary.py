import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs import vocabulary as vocabulary_module
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary


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


@given(
    st.lists(st.integers(-50, 50), max_size=20),
    st.lists(st.lists(st.integers(-50, 50), max_size=20), max_size=4),
)
def test_a_vocabulary_that_grows_never_changes_a_code(first, later):
    vocabulary = Vocabulary.fit(pd.Series(first, dtype="int64"))
    codes = dict(zip(sorted(set(first)), range(1, 200), strict=False))
    for values in later:
        vocabulary = vocabulary.extended(pd.Series(values, dtype="int64"))
        for value in sorted(set(values) - set(codes)):
            codes[value] = len(codes) + 1
    asked = pd.Series(range(-60, 60))
    assert list(vocabulary.encode(asked)) == [codes.get(value, 0) for value in asked]
    assert len(vocabulary) == len(codes) + 1


def test_texts_grow_behind_the_known_ones():
    grown = Vocabulary.fit(pd.Series(["m", "c"])).extended(pd.Series(["z", "a", "m", None]))
    assert list(grown.encode(pd.Series(["c", "m", "a", "z", "x"]))) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize(("known", "more"), [([1, 2], ["a"]), (["a"], [1, 2])])
def test_a_vocabulary_does_not_mix_numbers_and_texts(known, more):
    with pytest.raises(InputError, match=r"values such as .*: expected (numbers|strings)"):
        Vocabulary.fit(pd.Series(known)).extended(pd.Series(more))


def test_a_feature_keeps_its_borders_and_codes_when_it_is_learnt_again():
    vocabularies = FieldVocabularies()
    prices = pd.Series([1.0, 2, 3, 4])
    first, size = vocabularies.learn("price", prices, buckets=2)
    again, same = vocabularies.learn("price", pd.Series([100.0, 200, 1, np.nan]), buckets=2)
    assert list(first) == [1, 1, 2, 2]
    assert list(again) == [2, 2, 1, 0]
    assert size == same == 3


def test_only_known_rows_teach_a_feature():
    vocabularies = FieldVocabularies()
    codes, size = vocabularies.learn("shop", pd.Series(["a", "b", "c"]), known=np.array([True, False, True]))
    assert (list(codes), size) == ([1, 0, 2], 3)
    with pytest.raises(InputError, match="feature shop: values such as 1"):
        vocabularies.learn("shop", pd.Series([1]))


def test_more_values_than_32_bit_codes_name_the_field(monkeypatch):
    monkeypatch.setattr(vocabulary_module, "LARGEST_CODE", 2)
    learn = FieldVocabularies().learn
    assert learn("shop", pd.Series(["a"]))[1] == 2
    with pytest.raises(InputError, match="features: values of shop: found 3, but 32-bit codes end at 2;"):
        learn("shop", pd.Series(["a", "b"]))
    with pytest.raises(InputError, match="features: distinct value sets of tags: found 3, but"):
        FieldVocabularies().learn_value_sets("tags", pd.Series(["a|a", "a"]), separator="|")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("u", 1, 1), ("v", 1, 1), ("w", 1, 1)], "users: found 4, but"),
        ([("u", 1, 1), ("u", 2, 1), ("u", 3, 1)], "items: found 4, but"),
        ([("u", 1, t) for t in range(4)], "behaviors: behaviours of one user: found 4, but"),
    ],
)
def test_more_users_items_or_behaviours_than_32_bits_count_are_refused(monkeypatch, rows, message):
    monkeypatch.setattr(vocabulary_module, "LARGEST_CODE", 3)
    with pytest.raises(InputError, match=message):
        encoded(tables_of(rows))


def test_the_largest_code_is_that_of_int32():
    assert np.iinfo(np.int32).max == vocabulary_module.LARGEST_CODE


def test_borders_of_buckets_are_quantiles_of_the_known_rows():
    column, known = pd.Series([1.0, 2.0, 3.0, 4.0, 100.0, 200.0]), np.array([True] * 4 + [False] * 2)
    fields = FieldVocabularies()
    codes, size = fields.learn("price", column, known=known, buckets=2)
    assert fields.fields["price"].borders == (2.5,)
    assert (codes.tolist(), size) == ([1, 1, 2, 2, 2, 2], 3)
