import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.tables import CanonicalTables

ITEMS = pd.DataFrame({"item": range(100), "category": "c"})


def order_of(behaviors: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    return canonical(CanonicalTables(behaviors, ITEMS), seed=seed).behaviors


def tied(n: int) -> pd.DataFrame:
    return pd.DataFrame({"user": 1, "item": range(n), "time": 7})


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 99), st.integers(-(10**13), 10**13)),
        min_size=1,
        max_size=60,
    )
)
@pytest.mark.slow
def test_rows_are_sorted_by_user_and_time_and_none_is_lost(rows):
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    ours = order_of(frame)
    assert sorted(map(tuple, ours.itertuples(index=False))) == sorted(set(rows))
    keys = list(zip(ours["user"], ours["time"], strict=True))
    assert keys == sorted(keys)


def test_ties_are_broken_by_a_seeded_hash_not_by_the_item_or_the_file():
    forward, backward = order_of(tied(50)), order_of(tied(50)[::-1])
    assert list(forward["item"]) == list(backward["item"])
    assert list(forward["item"]) != sorted(forward["item"])
    assert list(order_of(tied(50), seed=1)["item"]) != list(forward["item"])


def test_the_tie_order_has_no_trend_in_the_item_id():
    many = pd.concat([tied(20).assign(user=user) for user in range(400)])
    ours = order_of(many)
    position = np.tile(np.arange(20), 400)
    assert abs(np.corrcoef(position, ours["item"])[0, 1]) < 0.03


def test_exact_duplicates_are_dropped_and_counted():
    rows = pd.DataFrame({"user": [1, 1, 1, 2], "item": [3, 3, 3, 3], "time": [5, 5, 6, 5]})
    tables = canonical(CanonicalTables(rows, ITEMS, left_out={"broken line": 4}))
    assert len(tables.behaviors) == 3
    assert tables.left_out == {"broken line": 4, "duplicate behaviors (same user, item and time)": 1}


def test_other_columns_travel_with_their_row():
    rows = pd.DataFrame({"user": ["b", "a"], "item": [1, 2], "time": [0, 0], "rating": np.float32([5, 3])})
    assert list(order_of(rows)["rating"]) == [3, 5]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pd.DataFrame({"user": [], "item": [], "time": []}), "behaviors: no rows"),
        (
            pd.DataFrame({"user": [1, None], "item": [1, 2], "time": [0, 0]}),
            r"behaviors\.user: 1 rows have no value",
        ),
    ],
)
def test_unusable_behaviors_give_one_clear_error(rows, message):
    with pytest.raises(InputError, match=message):
        order_of(rows)


def test_an_item_with_two_rows_is_refused():
    twice = pd.DataFrame({"item": [1, 1], "category": ["a", "b"]})
    with pytest.raises(InputError, match="item 1 has several rows"):
        canonical(CanonicalTables(tied(1), twice))


def test_impressions_of_one_moment_with_both_labels_are_kept():
    shown = pd.DataFrame(
        {"user": [1, 1, 1], "item": [2, 2, 2], "time": [5, 5, 5], "label": np.int8([0, 1, 1])}
    )
    tables = canonical(CanonicalTables(tied(3), ITEMS, None, shown))
    assert sorted(tables.impressions["label"]) == [0, 1]
    assert tables.left_out == {"duplicate impressions (same user, item, time and label)": 1}


def test_a_choice_of_users_keeps_whole_users_and_counts_the_rest():
    rows = pd.DataFrame({"user": np.repeat(range(10), 3), "item": np.tile(range(3), 10), "time": 1})
    tables = canonical(CanonicalTables(rows, ITEMS), max_users=4)
    assert list(tables.behaviors.groupby("user").size()) == [3] * 4
    assert tables.left_out == {"behaviors of users beyond max_users (4)": 18}


def test_events_out_of_time_order_are_counted_and_ties_and_other_users_are_not():
    rows = [("a", 1, 5), ("b", 1, 9), ("a", 2, 3), ("a", 3, 3), ("a", 4, 4), ("b", 2, 9), ("b", 3, 1)]
    behaviors = pd.DataFrame(rows, columns=["user", "item", "time"])
    tables = canonical(CanonicalTables(behaviors, pd.DataFrame({"item": [1, 2, 3, 4]})))
    assert tables.behaviors["time"].tolist() == [3, 3, 4, 5, 1, 9, 9]
    assert tables.notes == {"behaviors out of time order in the source (they are sorted)": 2}
