"""Whether a shown item is clicked: the log-odds, and the bias that gives the wished click-through rate."""

import numpy as np

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.users import SHOPPING_LEVELS, Users
from deep_interest.simulation.world import World


def log_odds(
    config: SimulationConfig,
    world: World,
    users: Users,
    *,
    user: np.ndarray,
    item: np.ndarray,
    pid: np.ndarray,
    hour: np.ndarray,
    relevance: np.ndarray,
) -> np.ndarray:
    """Return the log-odds of a click without the bias (formula in the package's docstring).

    Args:
        config: strengths of the effects.
        world: the catalogue.
        users: the block's users.
        user, item: indices into ``users`` and ``world``, shape (M,).
        pid: placement from 0, shape (M,).
        hour: hour of the day, shape (M,).
        relevance: f, shape (M,).

    Returns:
        float64 (M,).
    """
    clicks = config.clicks
    theme = world.category_theme[world.item_category[item]]
    evening = np.cos((hour - 21) * (2 * np.pi / 24))
    odds = (
        clicks.relevance_strength * relevance / (relevance + clicks.half_saturation)
        + world.item_quality[item]
        + clicks.profile_strength * world.affinity[users.group[user], theme]
        + world.pid_effect[pid]
        + clicks.context_std * evening
    )
    if world.item_price is None:
        return odds
    return odds + clicks.price_strength * _price_fit(
        world.item_price[item], config.price_levels, users.shopping[user]
    )


def _price_fit(price: np.ndarray, levels: int, shopping: np.ndarray) -> np.ndarray:
    """How well prices suit shopping levels, from -1 (the cheapest for the highest level, or the reverse) to 1; shape (M,)."""
    return 1 - 2 * np.abs(price / max(levels - 1, 1) - shopping / (SHOPPING_LEVELS - 1))


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """Return ``1 / (1 + exp(-logit))``."""
    return 1.0 / (1.0 + np.exp(-logit))


def bias_for(target: float, logit: np.ndarray) -> float:
    """Return the bias b with ``mean(sigmoid(logit + b)) == target``, by bisection."""
    odds = np.log(target / (1 - target))
    low, high = odds - logit.max(), odds - logit.min()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sigmoid(logit + middle).mean() < target else (low, middle)
    return float((low + high) / 2)
