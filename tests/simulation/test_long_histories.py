"""The simulated shop with long histories: users have about 1,000 behaviours, and old ones decide."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.world import make_items

PARAMETERS = Path(__file__).parents[2] / "conf/base/parameters"


def configured():
    base = yaml.safe_load((PARAMETERS / "simulation.yml").read_text())["simulation"]
    datasets = yaml.safe_load((PARAMETERS / "datasets.yml").read_text())["datasets"]
    return SimulationConfig(**base).changed(datasets["simulated_long"]["simulation"])


@pytest.mark.slow
def test_without_lasting_interests_the_log_is_the_same_whatever_their_saturation():
    small = {"users": 30, "items": 200, "categories": 10, "themes": 2, "shops": 20}
    logs = [
        pd.concat(impression_blocks(SimulationConfig(**small, clicks=clicks)))
        for clicks in ({}, {"lasting_half_saturation": 3.0})
    ]
    pd.testing.assert_frame_equal(*logs)


@pytest.mark.nightly
@pytest.mark.slow
def test_all_behaviours_of_a_category_predict_better_than_the_newest_50():
    config = configured().changed({"users": 80})
    behaviors, impressions = (
        pd.concat(blocks(config), ignore_index=True) for blocks in (behavior_blocks, impression_blocks)
    )
    assert 700 < len(behaviors) / config.users < 1300
    category = make_items(config).set_index("item").category
    own, scores = {u: rows for u, rows in behaviors.groupby("user")}, {"all": [], "newest": []}
    for row in impressions.itertuples():
        rows = own[row.user]
        before = rows[rows.time < row.time]
        matches = category[before.item].to_numpy() == category[row.item]
        scores["all"].append(matches.sum())
        scores["newest"].append(matches[-50:].sum())
    oracle, every, newest = (
        _gauc(impressions, np.asarray(score)) for score in (impressions.true_probability, scores["all"], scores["newest"])
    )  # fmt: skip
    assert every > newest + 0.05
    assert oracle > every


def _gauc(impressions, score):
    """DIN eq. 10 by comparing all pairs of each user; ties count half."""
    total = weight = 0.0
    for rows in impressions.groupby("user").groups.values():
        label = impressions.label.to_numpy()[rows]
        positive, negative = score[rows][label == 1], score[rows][label == 0]
        if len(positive) and len(negative):
            correct = np.sign(positive[:, None] - negative[None, :]).mean() / 2 + 0.5
            total, weight = total + correct * len(rows), weight + len(rows)
    return total / weight
