"""Catalogue of items with categories, themes, styles and shops, and the effects of profiles and placements on clicks.

Inside the simulator, categories and items are indices from 0. Categories are in the order of their themes' paths, so
that ``category + 1`` is the next stage. The tables contain permuted ids from 1, which do not reveal this order.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.randomness import WeightedGroups, generator, zipf_weights

GENDERS, AGE_LEVELS, PIDS = 2, 8, 6
_QUALITY_CORRELATION = 0.25  # correlation of an item's quality with the logarithm of its popularity


@dataclass(frozen=True)
class World:
    """Catalogue as arrays over items (I,), categories (C,) and themes (T,).

    Attributes:
        item_category, item_style, item_shop: category, style and shop index of each item, shape (I,).
        item_price: price level from 0, shape (I,); None if items have no price.
        item_quality: log-odds of a click due to the item itself, shape (I,).
        item_id, category_id: public ids, shapes (I,) and (C,).
        category_theme: theme of each category, shape (C,).
        path_start: offsets; the path of theme t is the categories ``path_start[t]:path_start[t + 1]``, shape (T + 1,).
        affinity: log-odds of a theme for profile group ``gender * AGE_LEVELS + age``, shape (groups, T).
        pid_effect: log-odds of a click due to the placement, shape (PIDS,).
        themes: draws a theme by profile group.
        shops: draws a shop by theme.
        popular: draws an item of the whole catalogue (key 0) by popularity.
        by_category, by_style, by_shop: draws an item by category, `style_key` or `shop_key`.
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
        """Return the key of a style within a category."""
        return style * len(self.category_id) + category

    def shop_key(self, category: np.ndarray, shop: np.ndarray) -> np.ndarray:
        """Return the key of a category within a shop."""
        return shop * len(self.category_id) + category


@lru_cache(maxsize=2)
def make_world(config: SimulationConfig) -> World:
    """Generate the catalogue; it does not depend on the number of users."""
    rng = generator(config.seed, "world", 0)
    C, T, N = config.categories, config.themes, config.items
    path_start = np.arange(T + 1) * C // T
    category_theme = np.repeat(np.arange(T), np.diff(path_start))
    category_weight = np.exp(0.8 * rng.standard_normal(C))
    category = _assign_groups(C, N, category_weight, rng)
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


def _assign_groups(groups: int, count: int, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Assign a group to each of ``count`` members: one member per group, the others by weight; shape (count,)."""
    remaining = rng.choice(groups, size=count - groups, p=weights / weights.sum())
    return np.concatenate([np.arange(groups), remaining])


def _assign_shops(
    config: SimulationConfig,
    category: np.ndarray,
    category_theme: np.ndarray,
    category_weight: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Assign a home category and the next category of its theme to each shop, and a shop to each item.

    Returns:
        Shop of each item (I,) and theme of each shop (shops,).
    """
    home = _assign_groups(config.categories, config.shops, category_weight, rng)
    second = np.minimum(home + 1, config.categories - 1)
    second = np.where(category_theme[second] == category_theme[home], second, home)
    size = zipf_weights(config.shops, 0.7, rng)
    shops_by_category = WeightedGroups.of(
        np.concatenate([home, second]), np.tile(np.arange(config.shops), 2), np.concatenate([size, size])
    )
    return shops_by_category.draw(category, rng.random(len(category))), category_theme[home]


def _affinities(themes: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Return the sum of the affinities of gender and age groups, shape (GENDERS * AGE_LEVELS, themes)."""
    gender = rng.standard_normal((GENDERS, 1, themes))
    age = rng.standard_normal((1, AGE_LEVELS, themes))
    return std * (gender + age).reshape(GENDERS * AGE_LEVELS, themes) / np.sqrt(2)


def _prices(config: SimulationConfig) -> np.ndarray | None:
    """Return price levels from a separate random stream, so that prices change only the clicks of a log."""
    if not config.price_levels:
        return None
    return generator(config.seed, "prices", 0).integers(config.price_levels, size=config.items)


def _qualities(popularity: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return standard normal qualities with a small correlation with popularity, shape (I,)."""
    log_popularity = np.log(popularity)
    score = (log_popularity - log_popularity.mean()) / (log_popularity.std() or 1.0)
    return _QUALITY_CORRELATION * score + np.sqrt(1 - _QUALITY_CORRELATION**2) * rng.standard_normal(
        len(popularity)
    )
