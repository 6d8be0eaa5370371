"""Signal in the default log's labels: GAUC of the true probability, and of simple rules clearly below it."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.world import make_items

CONFIG = SimulationConfig()


@pytest.fixture(scope="module")
def gauc() -> dict[str, float]:
    """GAUC, on the last day, of the true probability, of a rule on categories, and of popularity."""
    behaviors = pd.concat(behavior_blocks(CONFIG), ignore_index=True)
    impressions = pd.concat(impression_blocks(CONFIG), ignore_index=True)
    test_day = CONFIG.origin + (CONFIG.days - 1) * 86_400
    impressions = impressions[impressions.time >= test_day].reset_index(drop=True)
    history = behaviors[behaviors.time < test_day]
    category = make_items(CONFIG).set_index("item").category
    counts = history.groupby([history.user, history.item.map(category)]).size()
    keys = pd.MultiIndex.from_arrays([impressions.user, impressions.item.map(category)])
    scores = {
        "oracle": impressions.true_probability.astype(float),
        "same category": counts.reindex(keys, fill_value=0).to_numpy(),
        "popularity": history.item.value_counts().reindex(impressions.item, fill_value=0).to_numpy(),
    }
    return {
        name: _gauc(impressions.user, impressions.label, np.asarray(score)) for name, score in scores.items()
    }


@pytest.mark.slow
def test_the_gauc_of_the_true_probability_is_below_one(gauc):
    assert 0.76 < gauc["oracle"] < 0.82


@pytest.mark.slow
def test_counting_the_candidates_category_is_clearly_below_the_oracle(gauc):
    assert gauc["same category"] < gauc["oracle"] - 0.08


@pytest.mark.slow
def test_popularity_predicts_less_than_the_users_own_categories(gauc):
    assert 0.5 < gauc["popularity"] < 0.6
    assert gauc["same category"] > gauc["popularity"] + 0.06


def _gauc(user: pd.Series, label: pd.Series, score: np.ndarray) -> float:
    """DIN eq. 10 by comparing all pairs of each user; ties count half."""
    total = weight = 0.0
    for rows in user.groupby(user).groups.values():
        positive, negative = score[rows][label[rows] == 1], score[rows][label[rows] == 0]
        if len(positive) and len(negative):
            correct = np.sign(positive[:, None] - negative[None, :]).mean() / 2 + 0.5
            total, weight = total + correct * len(rows), weight + len(rows)
    return total / weight
