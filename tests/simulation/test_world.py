"""The catalogue: categories, themes, shops and popularity."""

import numpy as np
import pytest

from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.world import make_items, make_world

CONFIG = SimulationConfig(users=1_500, items=2_000, categories=40, themes=8, shops=120)


def test_the_item_table_has_each_id_once_and_every_category():
    items = make_items(CONFIG)

    assert items.dtypes.astype(str).to_dict() == dict.fromkeys(["item", "category", "shop"], "int64")
    assert items.item.tolist() == list(range(1, 2_001))
    assert sorted(items.category.unique()) == list(range(1, 41))
    assert items["shop"].between(1, 120).all()


def test_the_catalogue_depends_on_the_seed_not_on_the_users():
    items = make_items(CONFIG)

    assert items.equals(make_items(CONFIG.model_copy(update={"users": 3})))
    assert not items.equals(make_items(CONFIG.model_copy(update={"seed": 8})))


def test_a_shop_has_at_most_two_adjacent_categories_of_a_theme():
    world = make_world(CONFIG)

    for shop in np.unique(world.item_shop):
        categories = np.unique(world.item_category[world.item_shop == shop])
        assert categories.max() - categories.min() <= 1
        assert len(np.unique(world.category_theme[categories])) == 1


def test_category_sizes_are_uneven():
    sizes = make_items(CONFIG).category.value_counts()

    assert sizes.head(8).sum() > 0.35 * 2_000  # a fifth of the categories


def test_public_ids_reveal_neither_paths_nor_popularity():
    world = make_world(CONFIG)

    assert not np.all(np.diff(world.category_id) > 0)
    assert not np.all(np.diff(world.item_id) > 0)


def test_behaviours_have_a_long_tail_of_items():
    counts = np.concatenate([block.item for block in behavior_blocks(CONFIG)])
    share = np.sort(np.bincount(counts, minlength=2_001))[::-1].cumsum() / len(counts)

    assert share[19] > 0.10  # the top 1% of the items
    assert share[399] > 0.60  # the top 20%
    assert (np.bincount(counts, minlength=2_001)[1:] <= 5).mean() > 0.15


@pytest.mark.parametrize(("categories", "themes"), [(1, 1), (7, 3), (5, 5)])
def test_paths_cover_all_categories(categories, themes):
    config = SimulationConfig(users=50, items=30, categories=categories, themes=themes, shops=10)
    world = make_world(config)

    lengths = np.diff(world.path_start)
    assert lengths.sum() == categories
    assert lengths.min() >= 1
    assert lengths.max() - lengths.min() <= 1
    assert sum(len(block) for block in behavior_blocks(config)) > 50
