"""The catalogue: goods, their categories, themes, styles and shops, and what profiles and placements do to clicks.

Inside the simulator categories and items are indices from 0: categories in the order of their themes' paths, so that
``category + 1`` is the next stage. The tables show permuted ids from 1, which give none of this away.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.randomness import WeightedGroups, generator, zipf_weights

GENDERS, AGE_LEVELS, PIDS = 2, 8, 6
_SHARED_LUCK = 0.25  # correlation of an item's quality with the logarithm of its popularity


@dataclass(frozen=True)
class World:
    """The catalogue as arrays over items (I,), categories (C,) and themes (T,).

    Attributes:
        item_category, item_style, item_shop: indices, shape (I,).
        item_price: level of price from 0, shape (I,); None where goods have no price.
        item_quality: log-odds of a click that the item brings itself, shape (I,).
        item_id, category_id: public ids, shapes (I,) and (C,).
        category_theme: shape (C,).
        path_start: theme t's path is the categories ``path_start[t]:path_start[t + 1]``, shape (T + 1,).
        affinity: leaning of profile group ``gender * AGE_LEVELS + age`` to a theme, shape (groups, T).
        pid_effect: log-odds of a placement, shape (PIDS,).
        themes: draws a theme by profile group.
        shops: draws a shop by theme.
        popular: draws an item of the whole catalogue (key 0) by popularity.
        by_category, by_style, by_shop: draw an item by category, `style_key` or `shop_key`.
    """

    item_category: np.ndarray
    item_style: np.ndarray
    item_shop: np.ndarray
    item_price: np.ndarray | None
    item_quality: np.ndarray
    item_id: np.ndarray
    category_id: np.ndarray
    category_theme: np.ndarray
    path_start: np.ndarray
    affinity: np.ndarray
    pid_effect: np.ndarray
    themes: WeightedGroups
    shops: WeightedGroups
    popular: WeightedGroups
    by_category: WeightedGroups
    by_style: WeightedGroups
    by_shop: WeightedGroups

    def style_key(self, category: np.ndarray, style: np.ndarray) -> np.ndarray:
        """Number of a category's style."""
        return style * len(self.category_id) + category

    def shop_key(self, category: np.ndarray, shop: np.ndarray) -> np.ndarray:
        """Number of a shop's shelf for one category."""
        return shop * len(self.category_id) + category


@lru_cache(maxsize=2)
def make_world(config: SimulationConfig) -> World:
    """Build the catalogue that ``config`` describes; it does not depend on the number of users."""
    rng = generator(config.seed, "world", 0)
    C, T, N = config.categories, config.themes, config.items
    path_start = np.arange(T + 1) * C // T
    category_theme = np.repeat(np.arange(T), np.diff(path_start))
    category_weight = np.exp(0.8 * rng.standard_normal(C))
    category = _at_least_one_each(C, N, category_weight, rng)
    style = rng.integers(config.styles, size=N)
    shop, shop_theme = _assign_shops(config, category, category_theme, category_weight, rng)
    popularity = zipf_weights(N, config.popularity_exponent, rng)
    affinity = _affinities(T, config.interests.affinity_std, rng)
    items, shop_size = np.arange(N), np.bincount(shop, minlength=config.shops)
    theme_weight = zipf_weights(T, 0.3, rng) * np.exp(affinity)
    return World(
        item_category=category,
        item_style=style,
        item_shop=shop,
        item_price=_prices(config),
        item_quality=config.clicks.quality_std * _qualities(popularity, rng),
        item_id=1 + rng.permutation(N),
        category_id=1 + rng.permutation(C),
        category_theme=category_theme,
        path_start=path_start,
        affinity=affinity,
        pid_effect=config.clicks.context_std * rng.standard_normal(PIDS),
        themes=WeightedGroups.of(
            np.repeat(np.arange(len(affinity)), T), np.tile(np.arange(T), len(affinity)), theme_weight.ravel()
        ),
        shops=WeightedGroups.of(shop_theme, np.arange(config.shops), 1.0 + shop_size),
        popular=WeightedGroups.of(np.zeros(N, np.int64), items, popularity),
        by_category=WeightedGroups.of(category, items, popularity),
        by_style=WeightedGroups.of(style * C + category, items, popularity),
        by_shop=WeightedGroups.of(shop * C + category, items, popularity),
    )


def make_items(config: SimulationConfig) -> pd.DataFrame:
    """Return the item table: ``item``, ``category``, ``shop`` [, ``price_level``], int64 from 1, sorted by item."""
    world = make_world(config)
    frame = pd.DataFrame(
        {
            "item": world.item_id,
            "category": world.category_id[world.item_category],
            "shop": world.item_shop + 1,
        }
    )
    if world.item_price is not None:
        frame["price_level"] = world.item_price + 1
    return frame.astype("int64").sort_values("item", ignore_index=True)


def _at_least_one_each(groups: int, count: int, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Assign ``count`` things to ``groups``: one each, the others by weight; shape (count,)."""
    others = rng.choice(groups, size=count - groups, p=weights / weights.sum())
    return np.concatenate([np.arange(groups), others])


def _assign_shops(
    config: SimulationConfig,
    category: np.ndarray,
    category_theme: np.ndarray,
    category_weight: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Give each shop a home category and its theme's next one, and each item one of its category's shops.

    Returns:
        The item's shop (I,) and the shop's theme (shops,).
    """
    home = _at_least_one_each(config.categories, config.shops, category_weight, rng)
    second = np.minimum(home + 1, config.categories - 1)
    second = np.where(category_theme[second] == category_theme[home], second, home)
    size = zipf_weights(config.shops, 0.7, rng)
    shelves = WeightedGroups.of(
        np.concatenate([home, second]), np.tile(np.arange(config.shops), 2), np.concatenate([size, size])
    )
    return shelves.draw(category, rng.random(len(category))), category_theme[home]


def _affinities(themes: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Leanings of gender and age groups, added up; shape (GENDERS * AGE_LEVELS, themes)."""
    gender = rng.standard_normal((GENDERS, 1, themes))
    age = rng.standard_normal((1, AGE_LEVELS, themes))
    return std * (gender + age).reshape(GENDERS * AGE_LEVELS, themes) / np.sqrt(2)


def _prices(config: SimulationConfig) -> np.ndarray | None:
    """Levels of price of a stream of their own, so that a log without prices is the same but for the clicks."""
    if not config.price_levels:
        return None
    return generator(config.seed, "prices", 0).integers(config.price_levels, size=config.items)


def _qualities(popularity: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Standard normal qualities that go with popularity a little; shape (I,)."""
    rank = np.log(popularity)
    luck = (rank - rank.mean()) / (rank.std() or 1.0)
    return _SHARED_LUCK * luck + np.sqrt(1 - _SHARED_LUCK**2) * rng.standard_normal(len(popularity))
