"""Generate behaviours: one row per behaviour, in visits that mostly follow one of the user's interests."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.events import ACTIONS, Behaviors, Events, draw_actions, draw_visits
from deep_interest.simulation.interests import Interests, make_interests
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.users import Users, make_users
from deep_interest.simulation.world import World, make_world

_MEAN_DELAY = 600.0  # seconds between the start of a visit and a behaviour


def behavior_blocks(config: SimulationConfig) -> Iterator[pd.DataFrame]:
    """Yield the behaviours of all users, one block at a time, in the order of the user ids."""
    return (behavior_block(config, block) for block in range(config.blocks))


def behavior_block(config: SimulationConfig, block: int) -> pd.DataFrame:
    """Return the behaviours of one block, sorted by user and time.

    Columns: ``user``, ``item``, ``time`` (int64; seconds, UTC); with actions also ``action`` (`events.ACTIONS`) and ``dwell``
    (float32; seconds).
    """
    world, users = make_world(config), make_users(config, block)
    behaviors = make_behaviors(config, world, users, make_interests(config, world, users, block), block)
    table = pd.DataFrame(
        {
            "user": users.ids[behaviors.user],
            "item": world.item_id[behaviors.item],
            "time": config.origin + behaviors.second,
        }
    )
    if behaviors.action is None or behaviors.dwell is None:
        return table
    return table.assign(action=np.array(ACTIONS)[behaviors.action], dwell=behaviors.dwell.astype(np.float32))


def make_behaviors(
    config: SimulationConfig, world: World, users: Users, interests: Interests, block: int
) -> Behaviors:
    """Generate the behaviours of one block of users; each user has at least one.

    Args:
        config: parameters of the simulation.
        world: catalogue.
        users: users of the block.
        interests: interests of these users.
        block: index of the block.
    """
    rng = generator(config.seed, "behaviors", block)
    count = 1 + rng.poisson((config.mean_behaviors - 1) * users.activity)
    visits = draw_visits(np.ceil(count / config.session_behaviors).astype(np.int64), range(config.days), rng)
    user = np.repeat(np.arange(len(count)), count)
    N = len(user)
    visit = visits.first[user] + (rng.random(N) * np.diff(visits.first)[user]).astype(np.int64)
    second = visits.second[visit] + rng.exponential(_MEAN_DELAY, size=N).astype(np.int64)
    second = np.minimum(second, interests.horizon - 1)
    visit_slot = interests.draw_slots(visits.user, rng.random(len(visits.user)))
    follows_visit = rng.random(N) < config.interests.session_focus
    slot = np.where(follows_visit, visit_slot[visit], interests.draw_slots(user, rng.random(N)))
    order = np.argsort(user * interests.horizon + second, kind="stable")
    second, slot = second[order], slot[order]
    item = _draw_items(config, world, interests, interests.stage_at(user, slot, second), rng)
    if config.actions is None:
        return Behaviors(user=user, item=item, second=second)
    return draw_actions(Events(user, item, second), config.actions, generator(config.seed, "actions", block))


def draw_items(
    config: SimulationConfig,
    world: World,
    interests: Interests,
    position: np.ndarray,
    category: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw an item of each category: from the interest's shop, of its style, or any item of the category.

    Args:
        config: parameters of the simulation.
        world: catalogue.
        interests: interests of the block.
        position: index of the interest's stage in the flattened arrays of ``interests``, shape (k,).
        category: category of the item, shape (k,).
        rng: random number generator.

    Returns:
        Item indices, shape (k,).
    """
    k = len(category)
    choice, uniforms, item = rng.random(k), rng.random(k), np.full(k, -1)
    shop_probability = config.interests.shop_loyalty
    style_probability = shop_probability + (1 - shop_probability) * config.interests.style_loyalty
    shop_key = world.shop_key(category, interests.shop[position])
    style_key = world.style_key(category, interests.style[position])
    for cumulative_probability, groups, key in (
        (shop_probability, world.by_shop, shop_key),
        (style_probability, world.by_style, style_key),
        (1.0, world.by_category, category),
    ):
        undecided = np.flatnonzero((choice < cumulative_probability) & (item < 0))
        item[undecided] = groups.draw(key[undecided], uniforms[undecided])
    return item


def draw_category_of_same_theme(world: World, category: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Draw, for each ``category`` (k,), a category of the same theme; ``uniforms`` (k,) are in [0, 1)."""
    theme = world.category_theme[category]
    first, end = world.path_start[theme], world.path_start[theme + 1]
    return first + (uniforms * (end - first)).astype(np.int64)


def _draw_items(
    config: SimulationConfig,
    world: World,
    interests: Interests,
    position: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the item of each behaviour: of the current stage, of its theme, or a popular item."""
    shares, choice = config.interests, rng.random(len(position))
    category = interests.category[position]
    off_stage = choice >= shares.stage_share
    category[off_stage] = draw_category_of_same_theme(
        world, category[off_stage], rng.random(int(off_stage.sum()))
    )
    item = draw_items(config, world, interests, position, category, rng)
    is_popular = choice >= shares.stage_share + shares.theme_share
    item[is_popular] = world.popular.draw(
        np.zeros(int(is_popular.sum()), np.int64), rng.random(int(is_popular.sum()))
    )
    return item
