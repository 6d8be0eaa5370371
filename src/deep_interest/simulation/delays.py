"""Draw when clicks happen: some time after the impression, with a mean that can depend on the item's category.

The delay is exponential. The mean of category c is ``mean_hours · exp(category_spread · z_c)`` with standard normal ``z_c``, so the
delays of all clicks together are a mixture.
"""

import numpy as np

from deep_interest.logs.tables import NEVER
from deep_interest.simulation.config import ClickDelayConfig, SimulationConfig
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.world import World

_SECONDS_PER_HOUR = 3_600


def mean_delays(config: SimulationConfig, delays: ClickDelayConfig) -> np.ndarray:
    """Return the mean delay of each category in seconds, ``(C,)``."""
    z = generator(config.seed, "category_delays", 0).standard_normal(config.categories)
    return delays.mean_hours * _SECONDS_PER_HOUR * np.exp(delays.category_spread * z)


def draw_click_times(
    config: SimulationConfig, world: World, block: int, *, item: np.ndarray, time: np.ndarray, clicked: np.ndarray
) -> np.ndarray:  # fmt: skip
    """Return the time of each impression's click.

    Args:
        config: parameters of the log, with ``click_delays``.
        world: catalogue.
        block: block of users.
        item: ``(M,)`` indices of the items.
        time: ``(M,)`` times of the impressions in seconds.
        clicked: ``(M,)`` whether the impression is clicked in the end.

    Returns:
        ``(M,)`` int64; `NEVER` without a click.
    """
    assert config.click_delays is not None
    mean = mean_delays(config, config.click_delays)[world.item_category[item]]
    delay = generator(config.seed, "delays", block).exponential(size=len(item)) * mean
    return np.where(clicked, time + delay.astype(np.int64), NEVER)
