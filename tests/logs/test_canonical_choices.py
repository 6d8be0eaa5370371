"""Which rows the canonical tables keep, in which order, and what is counted, by references written another way."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.tables import CanonicalTables

ITEMS = pd.DataFrame({"item": range(100)})
MASK = 2**64 - 1


def splitmix(x: int, seed: int) -> int:
    """The first 32 bits of splitmix64 (Steele et al. 2014) after ``seed + 1`` steps of its counter, in plain integers."""
    x = (x + (seed + 1) * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return (x ^ (x >> 31)) >> 32


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("names", [int, str, lambda k: k * 2**33])
@pytest.mark.parametrize("scale", [1, 10**12])
def test_the_order_is_by_user_time_and_the_mixed_ranks_of_the_ids(seed, names, scale):
    """Ids of any type are ranked; times may span more than 32 bits."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "user": rng.integers(0, 9, 400),
            "item": rng.integers(0, 90, 400),
            "time": rng.integers(0, 5, 400) * scale,
        }
    )
    rows = rows.drop_duplicates().reset_index(drop=True)
    users, items = sorted({names(k) for k in rows["user"]}), sorted({names(k) for k in rows["item"]})
    if names is int:  # small integers are their own ranks, from the smallest on
        users, items = range(min(users), max(users) + 1), range(min(items), max(items) + 1)

    def key(row):
        user, item = users.index(names(row.user)), items.index(names(row.item))
        return user, row.time, splitmix((user << 32) | item, seed)

    expected = [(names(row.user), names(row.item), row.time) for row in sorted(rows.itertuples(), key=key)]
    named = rows.assign(user=[names(k) for k in rows["user"]], item=[names(k) for k in rows["item"]])
    catalogue = pd.DataFrame({"item": [names(k) for k in range(100)]})
    ours = canonical(CanonicalTables(named, catalogue), seed=seed).behaviors
    assert list(ours.itertuples(index=False, name=None)) == expected
    assert ours.index.equals(pd.RangeIndex(len(ours)))


def test_integer_ids_are_ranked_where_their_range_is_wide():
    """Users 2^31 apart do not fit into the packed key, users just below it do."""
    for far in (2**31 - 1, 2**31, 2**40):
        rows = pd.DataFrame({"user": [far, 0, far, 0], "item": [1, 2, 3, 4], "time": [5, 6, 4, 3]})
        ours = canonical(CanonicalTables(rows, ITEMS)).behaviors
        assert ours["user"].tolist() == [0, 0, far, far]
        assert ours["time"].tolist() == [3, 6, 4, 5]


@pytest.mark.parametrize("span", [2**32 - 1, 2**32, 2**40])
def test_times_are_sorted_whatever_they_span(span):
    rows = pd.DataFrame({"user": [1, 1, 0, 0, 0], "item": range(5), "time": [span, 0, span, span - 1, 0]}) - [
        0,
        0,
        7,
    ]
    ours = canonical(CanonicalTables(rows, ITEMS)).behaviors
    assert (ours["time"] + 7).tolist() == [0, span - 1, span, 0, span]


def test_a_table_in_order_is_returned_as_it_was_with_every_column():
    rows = pd.DataFrame(
        {"user": [1, 1, 2], "item": [3, 4, 5], "time": [1, 2, 0], "kind": ["a", None, "b"]}, index=[7, 8, 9]
    )
    tables = canonical(CanonicalTables(rows, ITEMS))
    pd.testing.assert_frame_equal(tables.behaviors, rows.reset_index(drop=True))
    assert (tables.left_out, tables.notes) == ({}, {})


def test_every_type_of_column_is_reordered_with_its_rows():
    rows = pd.DataFrame({
        "user": [2, 1, 1], "item": [3, 4, 5], "time": [0, 2, 1], "text": ["c", "b", "a"], "number": [3.5, 2.5, 1.5], "flag": [True, False, True],
        "kind": pd.Categorical(["z", "y", "x"]), "count": pd.array([3, None, 1], "Int64"), "day": np.array([3, 2, 1], np.int32),
    })  # fmt: skip
    ours = canonical(CanonicalTables(rows, ITEMS)).behaviors
    pd.testing.assert_frame_equal(ours, rows.iloc[[2, 1, 0]].reset_index(drop=True))


def shown(rows):
    return pd.DataFrame(rows, columns=["user", "item", "time", "label"])


BEHAVIORS = pd.DataFrame({"user": [1, 2], "item": [1, 2], "time": [9, 9]})


def test_impressions_are_sorted_counted_and_repeated_where_that_is_wanted():
    rows = shown([(2, 1, 5, 0), (1, 1, 5, 1), (1, 1, 5, 1), (1, 1, 5, 1), (1, 2, 4, 0)])
    once = canonical(CanonicalTables(BEHAVIORS, ITEMS, None, rows))
    assert once.impressions["user"].tolist() == [1, 1, 2]
    assert once.left_out == {"duplicate impressions (same user, item, time and label)": 2}
    assert once.notes == {"impressions out of time order in the source (they are sorted)": 1}
    again = canonical(CanonicalTables(BEHAVIORS, ITEMS, None, rows), repeated_impressions=True)
    assert again.impressions["time"].tolist() == [4, 5, 5, 5, 5]
    assert again.left_out == {}


def test_behaviours_are_never_repeated_and_earlier_counts_go_on():
    twice = pd.concat([BEHAVIORS, BEHAVIORS])
    reason = "duplicate behaviors (same user, item and time)"
    tables = canonical(
        CanonicalTables(twice, ITEMS, left_out={reason: 3}, notes={"fact": 1}), repeated_impressions=True
    )
    assert len(tables.behaviors) == 2
    assert tables.left_out == {reason: 5}
    assert tables.notes == {"fact": 1}


def test_the_ties_of_impressions_follow_the_seed():
    rows = shown([(1, item, 5, 0) for item in range(50)])
    orders = [
        canonical(CanonicalTables(BEHAVIORS, ITEMS, None, rows), seed=seed).impressions["item"].tolist() for seed in (0, 0, 1)
    ]  # fmt: skip
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("most", [2, 3, 4, 9])
def test_a_choice_of_users_is_seeded_and_applies_to_impressions(most):
    behaviors = pd.DataFrame({"user": [1, 2, 3, 3, 4], "item": range(5), "time": 1})
    impressions = shown([(user, 7, time, 1) for time, user in enumerate((1, 2, 3, 4, 4, 8))])
    tables = canonical(CanonicalTables(behaviors, ITEMS, None, impressions), seed=5, max_users=most)
    chosen = (
        {1, 2, 3, 4}
        if most >= 4
        else set(np.random.default_rng(5).choice([1, 2, 3, 4], most, replace=False).tolist())
    )
    assert set(tables.behaviors["user"]) == chosen
    kept = [user for user in (1, 2, 3, 4, 4, 8) if user in chosen or most >= 4]
    assert tables.impressions["user"].tolist() == kept
    assert tables.left_out == ({} if most >= 4 else {
        f"behaviors of users beyond max_users ({most})": 5 - int(behaviors["user"].isin(chosen).sum()),
        f"impressions of users beyond max_users ({most})": 6 - len(kept),
    })  # fmt: skip


@pytest.mark.parametrize("column", ["user", "item", "time"])
@pytest.mark.parametrize("table", ["behaviors", "impressions"])
def test_a_missing_id_or_time_is_counted_in_its_column(table, column):
    rows = shown([(1, 1, 5, 1), (2, 1, 5, 0), (3, 1, 5, 0)]).astype("Int64")
    broken = rows.assign(**{column: rows[column].mask([True, False, True])})
    pair = (broken, None) if table == "behaviors" else (BEHAVIORS, broken)
    with pytest.raises(InputError, match=rf"{table}\.{column}: 2 rows have no value"):
        canonical(CanonicalTables(pair[0], ITEMS, None, pair[1]))


def test_empty_impressions_and_repeated_items_are_refused():
    with pytest.raises(InputError, match="impressions: no rows remain"):
        canonical(CanonicalTables(BEHAVIORS, ITEMS, None, shown([])))
    with pytest.raises(InputError, match="item 5 has several rows"):
        canonical(CanonicalTables(BEHAVIORS, pd.DataFrame({"item": [1, 2, 5, 5, 6, 6]})))
