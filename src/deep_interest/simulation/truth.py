"""True click probabilities of the candidates of visits, given everything that a user did before the visit."""

import numpy as np

from deep_interest.simulation.clicks import log_odds, sigmoid
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.impressions import click_bias
from deep_interest.simulation.relevance import lasting_log_odds, relevance
from deep_interest.simulation.visits import DayVisits, ShopBlock
from deep_interest.simulation.world import make_world


def true_log_odds(
    config: SimulationConfig, block: ShopBlock, behaviors: Events, visits: DayVisits
) -> np.ndarray:
    """Return the log-odds of a click on each candidate in a slot that is looked at, float64 ``(V, C)``.

    The formula is that of the simulated log (docstring of the package), with the clicks in earlier visits among the behaviours.

    Args:
        config: parameters of the simulation.
        block: the users.
        behaviors: behaviours of the block, ordered by user and time; those at or after a visit do not count.
        visits: visits of the block.
    """
    world, (V, C) = make_world(config), visits.items.shape
    shown = Events(np.repeat(visits.user, C), visits.items.ravel(), np.repeat(visits.second, C))
    logit = log_odds(
        config, world, block.users, user=shown.user, item=shown.item, pid=np.repeat(visits.pid, C), hour=np.repeat(visits.hour, C),
        relevance=relevance(world, config.clicks, behaviors, shown),
    )  # fmt: skip
    if config.clicks.lasting_strength:
        logit = logit + lasting_log_odds(world, config.clicks, behaviors, shown)
    return (logit + click_bias(config)).reshape(V, C)


def true_probabilities(
    config: SimulationConfig, block: ShopBlock, behaviors: Events, visits: DayVisits
) -> np.ndarray:
    """Return the probability of a click on each candidate in a slot that is looked at, float64 ``(V, C)``; see `true_log_odds`."""
    return sigmoid(true_log_odds(config, block, behaviors, visits))
