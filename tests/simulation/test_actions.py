"""The simulated shop with actions: shares of actions, dwell times, and that both decide what is clicked."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.gauc import pairwise_gauc

from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.world import make_items

PARAMETERS = Path(__file__).parents[2] / "conf/base/parameters"
pytestmark = pytest.mark.slow


@cache
def simulated():
    """The configuration of 400 users, their behaviours and their impressions."""
    base = yaml.safe_load((PARAMETERS / "simulation.yml").read_text())["simulation"]
    datasets = yaml.safe_load((PARAMETERS / "datasets.yml").read_text())["datasets"]
    changes = datasets["simulated_actions"]["simulation"]
    config = SimulationConfig(**base).changed(changes).changed({"users": 400})
    return config, *(
        pd.concat(blocks(config), ignore_index=True) for blocks in (behavior_blocks, impression_blocks)
    )


def test_actions_and_dwell_times_have_the_configured_shares():
    config, behaviors, _ = simulated()
    actions, shares = config.actions, behaviors["action"].value_counts(normalize=True)
    n = len(behaviors)
    for action, share in {"cart": actions.cart_share, "purchase": actions.purchase_share}.items():
        assert abs(shares[action] - share) < 4 * np.sqrt(share * (1 - share) / n)
    logarithms = np.log(behaviors["dwell"])
    assert abs(logarithms.median() - np.log(actions.median_dwell)) < 5 * actions.dwell_spread / np.sqrt(n)
    assert abs(logarithms.std() - actions.dwell_spread) < 0.05 * actions.dwell_spread


@pytest.mark.nightly
def test_counts_weighted_by_action_dwell_and_time_predict_better_than_plain_counts():
    config, behaviors, impressions = simulated()
    actions = config.actions
    weight = behaviors["action"].map(
        {"view": actions.view_weight, "cart": actions.cart_weight, "purchase": actions.purchase_weight}
    )
    weight = weight * behaviors["dwell"] / (behaviors["dwell"] + actions.half_dwell)
    category = make_items(config).set_index("item").category
    own = {user: rows.assign(weight=weight[rows.index]) for user, rows in behaviors.groupby("user")}
    scores = {"plain": [], "recent": [], "weighted": []}
    for row in impressions.itertuples():
        before = own[row.user]
        before = before[before["time"] < row.time]
        matches = category[before["item"]].to_numpy() == category[row.item]
        recent = matches * 0.5 ** ((row.time - before["time"]) / 86_400 / config.clicks.half_life_days)
        scores["plain"].append(matches.sum())
        scores["recent"].append(recent.sum())
        scores["weighted"].append((recent * before["weight"]).sum())
    gauc = {name: pairwise_gauc(impressions, np.asarray(score)) for name, score in scores.items()}
    oracle = pairwise_gauc(impressions, impressions["true_probability"].to_numpy())
    assert gauc["recent"] > gauc["plain"] + 0.03
    assert gauc["weighted"] > gauc["recent"] + 0.004
    assert gauc["weighted"] < oracle < gauc["weighted"] + 0.03
