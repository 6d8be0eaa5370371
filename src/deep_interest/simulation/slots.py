"""Slots in which the impressions of a visit are shown, by an old ranker that knows a part of what makes an item relevant."""

import numpy as np

from deep_interest.simulation.behaviors import make_behaviors
from deep_interest.simulation.config import SimulationConfig, SlotConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.interests import make_interests
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.relevance import relevance
from deep_interest.simulation.users import Users
from deep_interest.simulation.world import World

SECONDS_BETWEEN = 40  # between two impressions of a visit


def place(
    config: SimulationConfig, slots: SlotConfig, world: World, users: Users, impressions: Events, block: int
) -> np.ndarray:
    """Return the slot of each impression, from 0, shape (M,).

    Args:
        config: parameters of the log.
        slots: number of slots, and the weights of the old ranker.
        world: catalogue.
        users: users of the block.
        impressions: impressions of the block, ordered by user and time.
        block: index of the block.
    """
    behaviors = make_behaviors(config, world, users, make_interests(config, world, users, block), block)
    by_category = config.clicks.model_copy(
        update={"theme_weight": 0.0, "next_weight": 0.0, "style_weight": 0.0, "shop_weight": 0.0}
    )
    f = relevance(world, by_category, behaviors, impressions, weights=behaviors.weights(config.actions))
    by_history = config.clicks.relevance_strength * f / (f + config.clicks.half_saturation)
    log_popularity = np.log(np.diff(world.popular.cumulative))[
        impressions.item
    ]  # one group, whose members are all items in order
    by_popularity = (log_popularity - log_popularity.mean()) / log_popularity.std()
    noise = generator(config.seed, "slots", block).standard_normal(len(f))
    score = slots.category * by_history + slots.popularity * by_popularity + slots.noise * noise
    return rank_on_pages(score, impressions, len(slots.examination))


def rank_on_pages(score: np.ndarray, impressions: Events, slots: int) -> np.ndarray:
    """Return the rank of each impression on its page by descending score, from 0, shape (M,).

    A visit is divided into pages of ``slots`` impressions, in the order of time.

    Args:
        score: score of the ranker, shape (M,).
        impressions: impressions, ordered by user and time.
        slots: number of slots of a page.
    """
    rows = np.arange(len(score))
    begins = np.ones(len(score), bool)  # of a visit
    begins[1:] = (np.diff(impressions.user) != 0) | (np.diff(impressions.second) > SECONDS_BETWEEN)
    in_visit = rows - rows[begins][np.cumsum(begins) - 1]
    page = np.cumsum(in_visit % slots == 0)
    order = np.lexsort((-score, page))
    rank = np.empty(len(score), np.int64)
    rank[order] = rows - np.searchsorted(
        page, page
    )  # `page` ascends, so sorted rows keep the bounds of the pages
    return rank
