"""What the default log's labels hold: an oracle in its band, simple rules clearly below it."""

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
    shown = pd.concat(impression_blocks(CONFIG), ignore_index=True)
    test_day = CONFIG.origin + (CONFIG.days - 1) * 86_400
    shown = shown[shown.time >= test_day].reset_index(drop=True)
    known = behaviors[behaviors.time < test_day]
    category = make_items(CONFIG).set_index("item").category
    seen = known.groupby([known.user, known.item.map(category)]).size()
    wanted = pd.MultiIndex.from_arrays([shown.user, shown.item.map(category)])
    scores = {
        "oracle": shown.true_probability.astype(float),
        "same category": seen.reindex(wanted, fill_value=0).to_numpy(),
        "popularity": known.item.value_counts().reindex(shown.item, fill_value=0).to_numpy(),
    }
    return {name: _gauc(shown.user, shown.label, np.asarray(score)) for name, score in scores.items()}


def test_the_oracle_leaves_room_and_noise(gauc):
    assert 0.76 < gauc["oracle"] < 0.82


def test_counting_the_candidates_category_is_far_from_the_oracle(gauc):
    assert gauc["same category"] < gauc["oracle"] - 0.08


def test_popularity_says_little_and_the_users_own_categories_more(gauc):
    assert 0.5 < gauc["popularity"] < 0.6
    assert gauc["same category"] > gauc["popularity"] + 0.06


def _gauc(user: pd.Series, label: pd.Series, score: np.ndarray) -> float:
    """DIN eq. 10 by comparing all pairs of each user; ties count half."""
    total = weight = 0.0
    for rows in user.groupby(user).groups.values():
        positive, negative = score[rows][label[rows] == 1], score[rows][label[rows] == 0]
        if len(positive) and len(negative):
            won = np.sign(positive[:, None] - negative[None, :]).mean() / 2 + 0.5
            total, weight = total + won * len(rows), weight + len(rows)
    return total / weight
