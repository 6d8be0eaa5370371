"""The behaviour log: order, determinism, drift."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.simulation.behaviors import behavior_block, behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.world import make_items

CONFIG = SimulationConfig(users=1_200, block_users=500)
WEEK = 7 * 86_400


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return pd.concat(behavior_blocks(CONFIG), ignore_index=True)


def test_rows_are_sorted_by_user_and_time_within_the_days_of_the_log(log):
    assert log.dtypes.astype(str).to_dict() == dict.fromkeys(["user", "item", "time"], "int64")
    assert (np.lexsort((log.time, log.user)) == np.arange(len(log))).all()
    assert log.time.between(CONFIG.origin, CONFIG.origin + CONFIG.days * 86_400 - 1).all()


def test_every_user_has_behaviours_and_their_mean_is_as_configured(log):
    assert log.user.unique().tolist() == list(range(1, 1_201))
    assert len(log) / 1_200 == pytest.approx(CONFIG.mean_behaviors, rel=0.1)


def test_the_log_depends_on_the_seed_only(log):
    assert pd.concat(behavior_blocks(CONFIG), ignore_index=True).equals(log)
    assert not pd.concat(behavior_blocks(CONFIG.model_copy(update={"seed": 8})), ignore_index=True).equals(
        log
    )


def test_a_block_generated_alone_equals_its_part_of_the_log(log):
    block = behavior_block(CONFIG, 1)

    assert block.equals(log[log.user.between(501, 1_000)].reset_index(drop=True))


def test_full_blocks_do_not_depend_on_the_number_of_users():
    fewer = CONFIG.model_copy(update={"users": 1_000})

    assert behavior_block(fewer, 1).equals(behavior_block(CONFIG, 1))


def test_interest_drift_makes_distant_weeks_differ_more(log):
    category = make_items(CONFIG).set_index("item").category
    log = log.assign(category=log.item.map(category), week=(log.time - CONFIG.origin) // WEEK)
    counts = log.groupby(["week", "user", "category"]).size().unstack("category", fill_value=0)
    shares = counts.div(counts.sum(axis=1), axis=0)

    def difference(one: int, other: int) -> float:
        return float((shares.loc[one] - shares.loc[other]).abs().sum(axis=1).dropna().mean())

    neighbours = np.mean([difference(week, week + 1) for week in range(5)])
    assert difference(0, 5) > neighbours + 0.1


def test_a_user_has_several_concurrent_interests(log):
    theme = _themes(CONFIG)
    week = log[(log.time - CONFIG.origin) // WEEK == 2].assign(theme=lambda frame: frame.item.map(theme))
    counts = week.groupby(["user", "theme"]).size()
    interests = counts[counts >= 2].groupby("user").size()

    assert 1.5 < interests.mean() < 4


def _themes(config: SimulationConfig) -> pd.Series:
    from deep_interest.simulation.world import make_world

    world = make_world(config)
    return pd.Series(world.category_theme[world.item_category], index=world.item_id)
