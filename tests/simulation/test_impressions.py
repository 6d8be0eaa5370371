"""Impressions: schema, determinism, and probabilities that follow the documented formula."""

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
def impressions() -> pd.DataFrame:
    return pd.concat(impression_blocks(CONFIG), ignore_index=True)


@pytest.mark.slow
def test_rows_are_sorted_and_within_the_impression_days(impressions):
    start = CONFIG.origin + CONFIG.behavior_days * 86_400

    assert impressions.dtypes.astype(str).to_dict() == DTYPES
    assert (np.lexsort((impressions.time, impressions.user)) == np.arange(len(impressions))).all()
    assert sorted(set((impressions.time - start) // 86_400)) == list(range(15))
    assert (impressions.hour == impressions.time // 3600 % 24).all()
    assert sorted(impressions.pid.unique()) == list(range(1, PIDS + 1))
    assert len(impressions) / CONFIG.users == pytest.approx(CONFIG.mean_impressions, rel=0.1)


@pytest.mark.slow
def test_impressions_depend_on_the_seed_only(impressions):
    assert pd.concat(impression_blocks(CONFIG), ignore_index=True).equals(impressions)
    assert not impression_block(CONFIG.model_copy(update={"seed": 8}), 0).equals(impression_block(CONFIG, 0))


def test_a_block_generated_alone_equals_its_part_of_the_log(impressions):
    assert impression_block(CONFIG, 2).equals(impressions[impressions.user > 2_000].reset_index(drop=True))


def test_the_click_through_rate_is_near_its_target(impressions):
    assert impressions.label.mean() == pytest.approx(CONFIG.clicks.target_ctr, abs=0.02)
    rare = CONFIG.model_copy(update={"clicks": CONFIG.clicks.model_copy(update={"target_ctr": 0.05})})
    assert impression_block(rare, 0).true_probability.mean() == pytest.approx(0.05, abs=0.01)


def test_labels_are_drawn_by_the_true_probability(impressions):
    p = impressions.true_probability.astype(float)
    for _, rows in impressions.groupby(pd.qcut(p, 10)):
        expected = p[rows.index]
        deviation = math.sqrt((expected * (1 - expected)).sum())
        assert abs(rows.label.sum() - expected.sum()) < 4 * deviation


def test_most_users_of_a_day_have_ten_impressions_and_both_labels(impressions):
    last_day = impressions[impressions.time >= CONFIG.origin + (CONFIG.days - 1) * 86_400]
    by_user = last_day.groupby("user").label.agg(["size", "mean"])

    assert (by_user["size"] >= 10).mean() > 0.85
    assert by_user["mean"].between(0, 1, inclusive="neither").mean() > 0.8


@pytest.mark.slow
def test_probabilities_follow_the_formula_on_the_public_tables(impressions):
    behaviors = pd.concat(behavior_blocks(CONFIG), ignore_index=True)
    users = pd.concat(user_blocks(CONFIG)).set_index("user")
    rows = impressions[impressions.user.isin([7, 1_003, 2_400])]

    assert len(rows) > 50
    for row in rows.itertuples():
        history = behaviors[behaviors.user == row.user]
        assert row.true_probability == pytest.approx(
            _probability(row, history, users.loc[row.user]), rel=1e-5
        )


def _probability(row, history: pd.DataFrame, profile: pd.Series) -> float:
    """Compute the formula of the package's docstring with a loop over behaviours."""
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


@pytest.mark.slow
def test_prices_change_the_log_odds_by_their_match_and_nothing_else():
    priced_config = CONFIG.model_copy(update={"price_levels": 5})
    plain, priced = impression_block(CONFIG, 0), impression_block(priced_config, 0)
    unchanged = ["user", "item", "time", "pid", "hour"]
    assert priced[unchanged].equals(plain[unchanged])
    assert make_items(priced_config).drop(columns="price_level").equals(make_items(CONFIG))

    price = priced.item.map(make_items(priced_config).set_index("item").price_level)
    assert sorted(price.unique()) == [1, 2, 3, 4, 5]
    shopping = priced.user.map(next(user_blocks(priced_config)).set_index("user").shopping_level)
    match = 1 - 2 * ((price - 1) / 4 - (shopping - 1) / 2).abs()
    log_odds = [np.log(p / (1 - p)) for p in (priced.true_probability.astype(float), plain.true_probability)]
    difference = log_odds[0] - log_odds[1] - (click_bias(priced_config) - click_bias(CONFIG))
    assert np.allclose(difference, priced_config.clicks.price_strength * match, atol=1e-4)
