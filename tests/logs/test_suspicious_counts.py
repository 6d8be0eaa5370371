"""Warnings about features of items and users that count over the whole period, at, below and above their bounds."""

import numpy as np
import pandas as pd
import pytest
from support.log_warnings import DAY, START, warnings_of

from deep_interest.logs.protocol_parameters import ProtocolParameters


def counted_log(items=20):
    """Six days; item k is shown k + 5 times on the last two and clicked in a pattern of its own; day 1 to 4 show all alike."""
    rng = np.random.default_rng(2)
    rows = []
    for day in range(6):
        for item in range(items):
            times = (item + 5) if day >= 4 else 6
            rows += [
                (int(rng.integers(40)), item, START + day * DAY + int(rng.integers(DAY)))
                for _ in range(times)
            ]
    shown = pd.DataFrame(rows, columns=["user", "item", "time"]).drop_duplicates()
    strength = rng.permutation(items)
    late = shown["time"] >= START + 4 * DAY
    chance = np.where(late, (strength[shown["item"]] + 1) / (items + 1), 0.5)
    shown["label"] = (rng.random(len(shown)) < chance).astype(int)
    extra = [(int(rng.integers(40)), item, START + 5 * DAY + int(rng.integers(DAY)))
             for item, many in enumerate(rng.permutation(items)) for _ in range(3 * many)]  # fmt: skip
    early = [(user, item, START - 3 * DAY) for user in range(40) for item in range(items)]
    behaviors = pd.DataFrame(early + extra, columns=["user", "item", "time"]).drop_duplicates()
    return behaviors, shown


def statistic(name, behaviors, shown):
    by_item = shown.groupby("item")["label"]
    return {
        "the clicks": by_item.sum(), "the impressions": by_item.size(), "the click-through rate": by_item.mean(),
        "the behaviours": behaviors.groupby("item").size(),
    }[name]  # fmt: skip


def count_warnings(column, behaviors, shown, **options):
    items = pd.DataFrame({"item": column.index, "count": column.to_numpy()})
    return warnings_of(behaviors, shown, items=items, item=("item_id", "count"), **options)


@pytest.mark.parametrize(
    "name", ["the clicks", "the impressions", "the click-through rate", "the behaviours"]
)
def test_an_item_column_that_counts_over_the_whole_period_is_warned_about(name):
    behaviors, shown = counted_log()
    column = statistic(name, behaviors, shown) * 7 + 3  # any monotone function of the count
    (warning,) = count_warnings(column, behaviors, shown)
    assert warning.startswith(f"items.count follows {name} of the whole period (rank correlation 1.00; ")
    (mirrored,) = count_warnings(-column, behaviors, shown)
    assert mirrored.startswith(f"items.count follows {name} of the whole period (rank correlation -1.00; ")


@pytest.mark.parametrize(
    "name", ["the clicks", "the impressions", "the click-through rate", "the behaviours"]
)
def test_an_item_column_that_counts_up_to_the_last_training_day_is_no_leak(name):
    """Days 4 and 5 validate and test. Behaviours of the training days' last moment are counted as well."""
    behaviors, shown = counted_log()
    end = shown.loc[shown["time"] < START + 4 * DAY, "time"].max()
    column = statistic(name, behaviors[behaviors["time"] <= end], shown[shown["time"] <= end])
    assert count_warnings(column, behaviors, shown) == []


def test_the_training_days_end_before_the_validation_days():
    behaviors, shown = counted_log()
    protocol = ProtocolParameters(name="by_day", validation_days=0, test_days=1)
    until_day_5 = shown[shown["time"] < START + 5 * DAY]
    column = statistic("the impressions", behaviors, until_day_5)
    assert count_warnings(column, behaviors, shown, protocol=protocol) == []
    assert len(count_warnings(column, behaviors, shown)) == 1


@pytest.mark.parametrize(("items", "warned"), [(10, False), (11, True)])
def test_a_rank_correlation_takes_eleven_items(items, warned):
    behaviors, shown = counted_log(items)
    found = count_warnings(statistic("the impressions", behaviors, shown), behaviors, shown)
    assert any("of the whole period" in text for text in found) == warned


@pytest.mark.parametrize(("known", "warned"), [(19, True), (20, True), (21, False)])
def test_a_count_is_looked_at_where_half_of_the_items_have_it(known, warned):
    """20 items are shown; those without a number are others, of which the catalogue has more and more."""
    behaviors, shown = counted_log(20)
    column = statistic("the impressions", behaviors, shown)
    column = pd.concat([column, pd.Series(np.nan, index=range(100, 100 + known))])
    assert len(count_warnings(column, behaviors, shown)) == warned


@pytest.mark.parametrize(("values", "warned"), [(4, False), (5, True)])
def test_a_count_has_at_least_five_values(values, warned):
    behaviors, shown = counted_log(20)
    ranks = statistic("the impressions", behaviors, shown).rank(method="first")
    found = count_warnings(np.ceil(ranks * values / 20), behaviors, shown)
    assert len(found) == warned


def test_a_user_column_that_counts_over_the_whole_period_is_warned_about():
    behaviors, shown = counted_log()
    shown["user"] = np.where(
        shown["time"] >= START + 4 * DAY, (np.arange(len(shown)) % 210) ** 0.5 // 0.7, shown["user"] % 20
    ).astype(int)
    clicks = shown.groupby("user")["label"].sum()
    people = pd.DataFrame({"user": clicks.index, "spent": clicks.to_numpy() * 9.5})
    (warning,) = warnings_of(behaviors, shown, users=people, profile=("user_id", "spent"))
    assert warning.startswith("users.spent follows the clicks of the whole period (rank correlation 1.00; ")
