"""Generate impressions: one row per impression, with its label and true click probability."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pandas as pd

from deep_interest.logs.tables import CLICK_TIME
from deep_interest.simulation.behaviors import draw_category_of_same_theme, draw_items, make_behaviors
from deep_interest.simulation.clicks import log_odds, sigmoid, solve_bias
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.delays import draw_click_times
from deep_interest.simulation.events import Events, Visits, draw_visits
from deep_interest.simulation.interests import Interests, make_interests
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.relevance import lasting_log_odds, relevance
from deep_interest.simulation.slots import SECONDS_BETWEEN, place
from deep_interest.simulation.users import Users, make_users
from deep_interest.simulation.world import PIDS, World, make_world

_PILOT_BLOCK, _PILOT_USERS = 2**32 - 1, 2_000  # population that sets the bias; no log contains this block


def impression_blocks(config: SimulationConfig) -> Iterator[pd.DataFrame]:
    """Yield the impressions of all users, one block at a time, in the order of the user ids."""
    return (impression_block(config, block) for block in range(config.blocks))


def impression_block(config: SimulationConfig, block: int) -> pd.DataFrame:
    """Return the impressions of one block, sorted by user and time.

    Columns: ``user``, ``item``, ``time`` (int64; seconds, UTC), ``pid`` (int8, placement from 1), ``hour`` (int8,
    0-23, UTC), ``label`` (int8) and ``true_probability`` (float32, the probability with which ``label`` was drawn). With slots, also
    ``slot`` (int8, from 1) and ``true_relevance`` (float32, the click probability of an examined impression). With
    ``click_delays`` also ``click_time`` (Int64; seconds, UTC; missing without a click): ``label`` says whether a click comes at all.
    """
    world, users = make_world(config), make_users(config, block)
    impressions, pid, logit = _draw_with_log_odds(config, world, users, block)
    probability = sigmoid(logit + click_bias(config)).astype(np.float32)
    uniforms = generator(config.seed, "labels", block).random(len(probability))
    shown: dict[str, np.ndarray] = {}
    if config.slots is not None:
        slot = place(config, config.slots, world, users, impressions, block)
        shown = {"slot": (slot + 1).astype(np.int8), "true_relevance": probability}
        probability = probability * np.array(config.slots.examination, np.float32)[slot]
    table = pd.DataFrame(
        {
            "user": users.ids[impressions.user],
            "item": world.item_id[impressions.item],
            "time": config.origin + impressions.second,
            "pid": (pid + 1).astype(np.int8),
            "hour": hour_of(impressions).astype(np.int8),
            "label": (uniforms < probability).astype(np.int8),
            "true_probability": probability,
        }
        | shown
    )
    if config.click_delays is None:
        return table
    clicked = table["label"].to_numpy() == 1
    times = draw_click_times(
        config, world, block, item=impressions.item, time=table["time"].to_numpy(), clicked=clicked
    )
    return table.assign(**{CLICK_TIME: pd.arrays.IntegerArray(times, ~clicked)})


@lru_cache(maxsize=2)
def click_bias(config: SimulationConfig) -> float:
    """Return the bias for which the mean click probability of a pilot population is ``target_ctr``."""
    users = make_users(config, _PILOT_BLOCK, count=_PILOT_USERS)
    _, _, logit = _draw_with_log_odds(config, make_world(config), users, _PILOT_BLOCK)
    return solve_bias(config.clicks.target_ctr, logit)


def _draw_with_log_odds(
    config: SimulationConfig, world: World, users: Users, block: int
) -> tuple[Events, np.ndarray, np.ndarray]:
    """Return the impressions of a block, their placements and their log-odds without the bias, each of shape (M,)."""
    interests = make_interests(config, world, users, block)
    behaviors = make_behaviors(config, world, users, interests, block)
    rng = generator(config.seed, "impressions", block)
    impressions = _draw_impressions(config, world, users, interests, rng)
    pid = rng.integers(PIDS, size=len(impressions.item))
    logit = log_odds(
        config,
        world,
        users,
        user=impressions.user,
        item=impressions.item,
        pid=pid,
        hour=hour_of(impressions),
        relevance=relevance(
            world, config.clicks, behaviors, impressions, weights=behaviors.weights(config.actions)
        ),
    )
    if config.clicks.lasting_strength:
        logit = logit + lasting_log_odds(
            world, config.clicks, behaviors, impressions, weights=behaviors.weights(config.actions)
        )
    return impressions, pid, logit


def hour_of(events: Events | Visits) -> np.ndarray:
    """Return the hour of the day of each event."""
    return events.second % SECONDS_PER_DAY // 3600


def _draw_impressions(
    config: SimulationConfig, world: World, users: Users, interests: Interests, rng: np.random.Generator
) -> Events:
    """Draw the times and candidates of impressions."""
    visits_per_user = rng.poisson(config.mean_impressions / config.session_impressions, size=len(users.ids))
    visits = draw_visits(visits_per_user, range(config.behavior_days, config.days), rng)
    length = 1 + rng.poisson(config.session_impressions - 1, size=len(visits.user))
    visit = np.repeat(np.arange(len(length)), length)
    rank = np.arange(len(visit)) - np.repeat(np.cumsum(length) - length, length)
    second = np.minimum(visits.second[visit] + rank * SECONDS_BETWEEN, interests.horizon - 1)
    order = np.argsort(visits.user[visit] * interests.horizon + second, kind="stable")
    user, second = visits.user[visit][order], second[order]
    return Events(user=user, item=draw_candidates(config, world, interests, user, second, rng), second=second)


def draw_candidates(
    config: SimulationConfig,
    world: World,
    interests: Interests,
    user: np.ndarray,
    second: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw an item to show to each ``user`` (M,) at each ``second`` (M,), from the sources of `config.CandidateConfig`."""
    M = len(user)
    source = np.searchsorted(np.cumsum(config.candidates.shares), rng.random(M), side="right")
    position = interests.stage_at(user, interests.draw_slots(user, rng.random(M)), second)
    current = interests.category[position]
    past = interests.earlier_stage(position, rng.random(M))
    path_end = world.path_start[world.category_theme[current] + 1] - 1
    same_theme = draw_category_of_same_theme(world, current, rng.random(M))
    category = np.select(
        [source == 0, source == 1, source == 2, source == 3],
        [current, np.minimum(current + 1, path_end), same_theme, interests.category[past]],
        default=current,
    )
    item = draw_items(config, world, interests, np.where(source == 3, past, position), category, rng)
    item = np.where(source == 4, world.popular.draw(np.zeros(M, np.int64), rng.random(M)), item)
    return np.where(source == 5, rng.integers(config.items, size=M), item)
