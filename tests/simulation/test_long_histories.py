"""The simulated shop with long histories: users have about 1,000 behaviours, and old ones decide."""

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
        pairwise_gauc(impressions, np.asarray(score)) for score in (impressions.true_probability, scores["all"], scores["newest"])
    )  # fmt: skip
    assert every > newest + 0.05
    assert oracle > every
