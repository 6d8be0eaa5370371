"""User profiles and activity."""

import numpy as np
import pandas as pd

from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import make_items

CONFIG = SimulationConfig(users=3_000, block_users=1_000)
FEATURES = {"gender": 2, "age_level": 8, "city_level": 5, "shopping_level": 3, "occupation": 2}


def test_each_user_has_one_row_with_levels_from_one():
    users = pd.concat(user_blocks(CONFIG), ignore_index=True)

    assert users.user.tolist() == list(range(1, 3_001))
    assert list(users.columns) == ["user", *FEATURES]
    for name, levels in FEATURES.items():
        assert users[name].dtype == np.int8
        assert sorted(users[name].unique()) == list(range(1, levels + 1))


def test_higher_shopping_levels_have_more_behaviours():
    users = pd.concat(user_blocks(CONFIG)).set_index("user")
    counts = pd.concat(behavior_blocks(CONFIG)).groupby("user").size()

    means = counts.groupby(users.shopping_level).mean()

    assert means[1] * 1.5 < means[2]
    assert means[2] * 1.5 < means[3]


def test_age_and_gender_correlate_with_categories_unlike_the_city():
    users = pd.concat(user_blocks(CONFIG))
    log = pd.concat(behavior_blocks(CONFIG)).merge(users).merge(make_items(CONFIG))

    def spread(feature: str, levels: tuple[int, int]) -> float:
        shares = [log[log[feature] == level].category.value_counts(normalize=True) for level in levels]
        return float(shares[0].sub(shares[1], fill_value=0).abs().sum())

    assert spread("gender", (1, 2)) > 2 * spread("city_level", (2, 3))
    assert spread("age_level", (3, 4)) > 2 * spread("city_level", (2, 3))
