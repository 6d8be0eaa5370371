"""What users do: one row a behaviour, in visits that mostly follow one of the user's interests."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.events import Events, draw_visits
from deep_interest.simulation.interests import Interests, make_interests
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.users import Users, make_users
from deep_interest.simulation.world import World, make_world

_MEAN_LAG_SECONDS = 600.0  # of a behaviour behind its visit's begin


def behavior_blocks(config: SimulationConfig) -> Iterator[pd.DataFrame]:
    """Yield the behaviours of all users, a block at a time, in the order of the users' ids."""
    return (behavior_block(config, block) for block in range(config.blocks))


def behavior_block(config: SimulationConfig, block: int) -> pd.DataFrame:
    """Return one block's behaviours: ``user``, ``item``, ``time`` (int64; seconds, UTC), sorted by user and time."""
    world, users = make_world(config), make_users(config, block)
    made = make_behaviors(config, world, users, make_interests(config, world, users, block), block)
    return pd.DataFrame(
        {"user": users.ids[made.user], "item": world.item_id[made.item], "time": config.origin + made.second}
    )


def make_behaviors(
    config: SimulationConfig, world: World, users: Users, interests: Interests, block: int
) -> Events:
    """Draw the behaviours of one block of users; each user has at least one."""
    rng = generator(config.seed, "behaviors", block)
    count = 1 + rng.poisson((config.mean_behaviors - 1) * users.activity)
    visits = draw_visits(np.ceil(count / config.session_behaviors).astype(np.int64), range(config.days), rng)
    user = np.repeat(np.arange(len(count)), count)
    N = len(user)
    visit = visits.first[user] + (rng.random(N) * np.diff(visits.first)[user]).astype(np.int64)
    second = visits.second[visit] + rng.exponential(_MEAN_LAG_SECONDS, size=N).astype(np.int64)
    second = np.minimum(second, interests.horizon - 1)
    visit_slot = interests.choose_slots(visits.user, rng.random(len(visits.user)))
    focused = rng.random(N) < config.interests.session_focus
    slot = np.where(focused, visit_slot[visit], interests.choose_slots(user, rng.random(N)))
    order = np.argsort(user * interests.horizon + second, kind="stable")
    second, slot = second[order], slot[order]
    item = _choose(config, world, interests, interests.stage_at(user, slot, second), rng)
    return Events(user=user, item=item, second=second)


def choose_items(
    config: SimulationConfig,
    world: World,
    interests: Interests,
    position: np.ndarray,
    category: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose an item of each ``category`` (k,) as the interest at ``position`` (k,) does: of its shop, style, or any."""
    k = len(category)
    luck, uniforms, item = rng.random(k), rng.random(k), np.full(k, -1)
    to_shop = config.interests.shop_loyalty
    to_style = to_shop + (1 - to_shop) * config.interests.style_loyalty
    on_shelf = world.shop_key(category, interests.shop[position])
    of_style = world.style_key(category, interests.style[position])
    for share, groups, key in (
        (to_shop, world.by_shop, on_shelf),
        (to_style, world.by_style, of_style),
        (1.0, world.by_category, category),
    ):
        undecided = np.flatnonzero((luck < share) & (item < 0))
        item[undecided] = groups.draw(key[undecided], uniforms[undecided])
    return item


def category_of_theme(world: World, category: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Draw any category of the theme of each ``category`` (k,)."""
    theme = world.category_theme[category]
    first, end = world.path_start[theme], world.path_start[theme + 1]
    return first + (uniforms * (end - first)).astype(np.int64)


def _choose(
    config: SimulationConfig,
    world: World,
    interests: Interests,
    position: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose the item of each behaviour: of the present stage, of its theme, or just a popular one."""
    shares, luck = config.interests, rng.random(len(position))
    category = interests.category[position]
    astray = luck >= shares.stage_share
    category[astray] = category_of_theme(world, category[astray], rng.random(int(astray.sum())))
    item = choose_items(config, world, interests, position, category, rng)
    noise = luck >= shares.stage_share + shares.theme_share
    item[noise] = world.popular.draw(np.zeros(int(noise.sum()), np.int64), rng.random(int(noise.sum())))
    return item
