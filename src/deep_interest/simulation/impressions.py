"""What users are shown and whether they click: one row an impression, with its true probability."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pandas as pd

from deep_interest.simulation.behaviors import category_of_theme, choose_items, make_behaviors
from deep_interest.simulation.clicks import bias_for, log_odds, sigmoid
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.events import Events, draw_visits
from deep_interest.simulation.interests import Interests, make_interests
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.relevance import relevance
from deep_interest.simulation.users import Users, make_users
from deep_interest.simulation.world import PIDS, World, make_world

_PILOT_BLOCK, _PILOT_USERS = 2**32 - 1, 2_000  # the population that the bias is set on; no log has this block
_SECONDS_BETWEEN = 40  # from one impression of a visit to the next


def impression_blocks(config: SimulationConfig) -> Iterator[pd.DataFrame]:
    """Yield the impressions of all users, a block at a time, in the order of the users' ids."""
    return (impression_block(config, block) for block in range(config.blocks))


def impression_block(config: SimulationConfig, block: int) -> pd.DataFrame:
    """Return one block's impressions, sorted by user and time.

    Columns: ``user``, ``item``, ``time`` (int64; seconds, UTC), ``pid`` (int8, placement from 1), ``hour`` (int8,
    0-23, UTC), ``label`` (int8) and ``true_probability`` (float32, the probability that ``label`` was drawn by).
    """
    world, users = make_world(config), make_users(config, block)
    shown, pid, logit = _shown_with_log_odds(config, world, users, block)
    probability = sigmoid(logit + click_bias(config)).astype(np.float32)
    uniforms = generator(config.seed, "labels", block).random(len(probability))
    return pd.DataFrame(
        {
            "user": users.ids[shown.user],
            "item": world.item_id[shown.item],
            "time": config.origin + shown.second,
            "pid": (pid + 1).astype(np.int8),
            "hour": _hour(shown).astype(np.int8),
            "label": (uniforms < probability).astype(np.int8),
            "true_probability": probability,
        }
    )


@lru_cache(maxsize=2)
def click_bias(config: SimulationConfig) -> float:
    """Return the bias that gives a pilot population, which is in no log, the mean probability ``target_ctr``."""
    users = make_users(config, _PILOT_BLOCK, count=_PILOT_USERS)
    _, _, logit = _shown_with_log_odds(config, make_world(config), users, _PILOT_BLOCK)
    return bias_for(config.clicks.target_ctr, logit)


def _shown_with_log_odds(
    config: SimulationConfig, world: World, users: Users, block: int
) -> tuple[Events, np.ndarray, np.ndarray]:
    """Make a block's impressions, their placements and their log-odds without the bias, each of shape (M,)."""
    interests = make_interests(config, world, users, block)
    behaviors = make_behaviors(config, world, users, interests, block)
    rng = generator(config.seed, "impressions", block)
    shown = _show(config, world, users, interests, rng)
    pid = rng.integers(PIDS, size=len(shown.item))
    logit = log_odds(
        config,
        world,
        users,
        user=shown.user,
        item=shown.item,
        pid=pid,
        hour=_hour(shown),
        relevance=relevance(world, config.clicks, behaviors, shown),
    )
    return shown, pid, logit


def _hour(events: Events) -> np.ndarray:
    return events.second % SECONDS_PER_DAY // 3600


def _show(
    config: SimulationConfig, world: World, users: Users, interests: Interests, rng: np.random.Generator
) -> Events:
    """Draw when the users look and what they are shown."""
    visits_per_user = rng.poisson(config.mean_impressions / config.session_impressions, size=len(users.ids))
    visits = draw_visits(visits_per_user, range(config.behavior_days, config.days), rng)
    length = 1 + rng.poisson(config.session_impressions - 1, size=len(visits.user))
    visit = np.repeat(np.arange(len(length)), length)
    rank = np.arange(len(visit)) - np.repeat(np.cumsum(length) - length, length)
    second = np.minimum(visits.second[visit] + rank * _SECONDS_BETWEEN, interests.horizon - 1)
    order = np.argsort(visits.user[visit] * interests.horizon + second, kind="stable")
    user, second = visits.user[visit][order], second[order]
    return Events(user=user, item=_candidates(config, world, interests, user, second, rng), second=second)


def _candidates(
    config: SimulationConfig,
    world: World,
    interests: Interests,
    user: np.ndarray,
    second: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the candidates (M,) from the sources of `config.CandidateConfig`."""
    M = len(user)
    source = np.searchsorted(np.cumsum(config.candidates.shares), rng.random(M), side="right")
    position = interests.stage_at(user, interests.choose_slots(user, rng.random(M)), second)
    present = interests.category[position]
    past = interests.earlier_stage(position, rng.random(M))
    path_end = world.path_start[world.category_theme[present] + 1] - 1
    anyone = category_of_theme(world, present, rng.random(M))
    category = np.select(
        [source == 0, source == 1, source == 2, source == 3],
        [present, np.minimum(present + 1, path_end), anyone, interests.category[past]],
        default=present,
    )
    item = choose_items(config, world, interests, np.where(source == 3, past, position), category, rng)
    item = np.where(source == 4, world.popular.draw(np.zeros(M, np.int64), rng.random(M)), item)
    return np.where(source == 5, rng.integers(config.items, size=M), item)
