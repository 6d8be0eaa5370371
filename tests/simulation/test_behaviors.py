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


def test_rows_are_sorted_by_user_and_time_and_lie_in_the_days_of_the_log(log):
    assert log.dtypes.astype(str).to_dict() == dict.fromkeys(["user", "item", "time"], "int64")
    assert (np.lexsort((log.time, log.user)) == np.arange(len(log))).all()
    assert log.time.between(CONFIG.origin, CONFIG.origin + CONFIG.days * 86_400 - 1).all()


def test_every_user_has_a_behaviour_and_the_mean_is_as_asked(log):
    assert log.user.unique().tolist() == list(range(1, 1_201))
    assert len(log) / 1_200 == pytest.approx(CONFIG.mean_behaviors, rel=0.1)


def test_the_same_seed_gives_the_same_log_and_another_seed_another(log):
    assert pd.concat(behavior_blocks(CONFIG), ignore_index=True).equals(log)
    assert not pd.concat(behavior_blocks(CONFIG.model_copy(update={"seed": 8})), ignore_index=True).equals(
        log
    )


def test_a_block_made_alone_is_the_block_of_the_whole(log):
    alone = behavior_block(CONFIG, 1)

    assert alone.equals(log[log.user.between(501, 1_000)].reset_index(drop=True))


def test_full_blocks_do_not_depend_on_how_many_users_follow():
    fewer = CONFIG.model_copy(update={"users": 1_000})

    assert behavior_block(fewer, 1).equals(behavior_block(CONFIG, 1))


def test_interests_drift_so_that_far_weeks_differ_more_than_neighbouring_ones(log):
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
    pursued = counts[counts >= 2].groupby("user").size()

    assert 1.5 < pursued.mean() < 4


def _themes(config: SimulationConfig) -> pd.Series:
    from deep_interest.simulation.world import make_world

    world = make_world(config)
    return pd.Series(world.category_theme[world.item_category], index=world.item_id)
