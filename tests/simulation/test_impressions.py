"""Impressions: schema, determinism, and probabilities that are what the documented formula says."""

import math

import numpy as np
import pandas as pd
import pytest

from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import click_bias, impression_block, impression_blocks
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import AGE_LEVELS, PIDS, make_items, make_world

CONFIG = SimulationConfig(users=2_500, block_users=1_000)
DTYPES = {
    "user": "int64",
    "item": "int64",
    "time": "int64",
    "pid": "int8",
    "hour": "int8",
    "label": "int8",
    "true_probability": "float32",
}


@pytest.fixture(scope="module")
def shown() -> pd.DataFrame:
    return pd.concat(impression_blocks(CONFIG), ignore_index=True)


def test_rows_are_sorted_and_lie_in_the_impression_days(shown):
    begin = CONFIG.origin + CONFIG.behavior_days * 86_400

    assert shown.dtypes.astype(str).to_dict() == DTYPES
    assert (np.lexsort((shown.time, shown.user)) == np.arange(len(shown))).all()
    assert sorted(set((shown.time - begin) // 86_400)) == list(range(15))
    assert (shown.hour == shown.time // 3600 % 24).all()
    assert sorted(shown.pid.unique()) == list(range(1, PIDS + 1))
    assert len(shown) / CONFIG.users == pytest.approx(CONFIG.mean_impressions, rel=0.1)


def test_the_same_seed_gives_the_same_impressions_and_another_seed_others(shown):
    assert pd.concat(impression_blocks(CONFIG), ignore_index=True).equals(shown)
    assert not impression_block(CONFIG.model_copy(update={"seed": 8}), 0).equals(impression_block(CONFIG, 0))


def test_a_block_made_alone_is_the_block_of_the_whole(shown):
    assert impression_block(CONFIG, 2).equals(shown[shown.user > 2_000].reset_index(drop=True))


def test_the_click_through_rate_is_near_its_target(shown):
    assert shown.label.mean() == pytest.approx(CONFIG.clicks.target_ctr, abs=0.02)
    rare = CONFIG.model_copy(update={"clicks": CONFIG.clicks.model_copy(update={"target_ctr": 0.05})})
    assert impression_block(rare, 0).true_probability.mean() == pytest.approx(0.05, abs=0.01)


def test_labels_are_drawn_by_the_true_probability(shown):
    p = shown.true_probability.astype(float)
    for _, rows in shown.groupby(pd.qcut(p, 10)):
        expected = p[rows.index]
        deviation = math.sqrt((expected * (1 - expected)).sum())
        assert abs(rows.label.sum() - expected.sum()) < 4 * deviation


def test_most_users_of_a_day_saw_ten_impressions_and_both_classes(shown):
    last_day = shown[shown.time >= CONFIG.origin + (CONFIG.days - 1) * 86_400]
    by_user = last_day.groupby("user").label.agg(["size", "mean"])

    assert (by_user["size"] >= 10).mean() > 0.85
    assert by_user["mean"].between(0, 1, inclusive="neither").mean() > 0.8


def test_probabilities_are_those_of_the_documented_formula_on_the_public_tables(shown):
    behaviors = pd.concat(behavior_blocks(CONFIG), ignore_index=True)
    users = pd.concat(user_blocks(CONFIG)).set_index("user")
    rows = shown[shown.user.isin([7, 1_003, 2_400])]

    assert len(rows) > 50
    for row in rows.itertuples():
        history = behaviors[behaviors.user == row.user]
        assert row.true_probability == pytest.approx(
            _probability(row, history, users.loc[row.user]), rel=1e-5
        )


def _probability(row, history: pd.DataFrame, profile: pd.Series) -> float:
    """The package's formula, written once more, behaviour by behaviour."""
    world, clicks = make_world(CONFIG), CONFIG.clicks
    index = {item: k for k, item in enumerate(world.item_id.tolist())}
    a = index[row.item]
    category, theme = world.item_category, world.category_theme[world.item_category]
    f = 0.0
    for behavior in history.itertuples():
        if behavior.time >= row.time:
            continue
        j = index[behavior.item]
        same_category = category[j] == category[a]
        k = clicks.theme_weight * (theme[j] == theme[a])
        k += clicks.next_weight * (theme[j] == theme[a] and category[j] + 1 == category[a])
        k += clicks.category_weight * same_category
        k += clicks.style_weight * (same_category and world.item_style[j] == world.item_style[a])
        k += clicks.shop_weight * (world.item_shop[j] == world.item_shop[a])
        f += k * 0.5 ** ((row.time - behavior.time) / 86_400 / clicks.half_life_days)
    group = (profile.gender - 1) * AGE_LEVELS + profile.age_level - 1
    logit = (
        click_bias(CONFIG)
        + clicks.relevance_strength * f / (f + clicks.half_saturation)
        + world.item_quality[a]
        + clicks.profile_strength * world.affinity[group, theme[a]]
        + world.pid_effect[row.pid - 1]
        + clicks.context_std * math.cos((row.hour - 21) / 24 * 2 * math.pi)
    )
    return 1 / (1 + math.exp(-logit))


def test_prices_add_their_fit_to_the_log_odds_and_leave_the_rest_of_the_log_as_it_was():
    priced = CONFIG.model_copy(update={"price_levels": 5})
    plain, shown = impression_block(CONFIG, 0), impression_block(priced, 0)
    drawn = ["user", "item", "time", "pid", "hour"]
    assert shown[drawn].equals(plain[drawn])
    assert make_items(priced).drop(columns="price_level").equals(make_items(CONFIG))

    price = shown.item.map(make_items(priced).set_index("item").price_level)
    assert sorted(price.unique()) == [1, 2, 3, 4, 5]
    shopping = shown.user.map(next(user_blocks(priced)).set_index("user").shopping_level)
    fit = 1 - 2 * ((price - 1) / 4 - (shopping - 1) / 2).abs()
    log_odds = [np.log(p / (1 - p)) for p in (shown.true_probability.astype(float), plain.true_probability)]
    gained = log_odds[0] - log_odds[1] - (click_bias(priced) - click_bias(CONFIG))
    assert np.allclose(gained, priced.clicks.price_strength * fit, atol=1e-4)
