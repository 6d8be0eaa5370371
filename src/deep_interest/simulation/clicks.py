"""Log-odds of a click, and the bias that gives the target click-through rate."""

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
    """Return the log-odds of a click without the bias (for the formula, see the docstring of the package).

    Args:
        config: strengths of the effects.
        world: catalogue.
        users: users of the block.
        user: index into ``users``, shape (M,).
        item: index into ``world``, shape (M,).
        pid: index of the placement, from 0, shape (M,).
        hour: hour of the day, shape (M,).
        relevance: relevance f of the user's history, shape (M,).

    Returns:
        Log-odds, float64 (M,).
    """
    clicks = config.clicks
    theme = world.category_theme[world.item_category[item]]
    hour_effect = np.cos((hour - 21) * (2 * np.pi / 24))
    logit = (
        clicks.relevance_strength * relevance / (relevance + clicks.half_saturation)
        + world.item_quality[item]
        + clicks.profile_strength * world.affinity[users.group[user], theme]
        + world.pid_effect[pid]
        + clicks.context_std * hour_effect
    )
    if world.item_price is None:
        return logit
    return logit + clicks.price_strength * _price_match(
        world.item_price[item], config.price_levels, users.shopping[user]
    )


def _price_match(price: np.ndarray, levels: int, shopping: np.ndarray) -> np.ndarray:
    """Return how well prices match shopping levels, from -1 (lowest price and highest level, or the reverse) to 1."""
    return 1 - 2 * np.abs(price / max(levels - 1, 1) - shopping / (SHOPPING_LEVELS - 1))


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """Return ``1 / (1 + exp(-logit))``."""
    return 1.0 / (1.0 + np.exp(-logit))


def solve_bias(target: float, logit: np.ndarray) -> float:
    """Return the bias b with ``mean(sigmoid(logit + b)) == target``, found by bisection."""
    target_logit = np.log(target / (1 - target))
    low, high = target_logit - logit.max(), target_logit - logit.min()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sigmoid(logit + middle).mean() < target else (low, middle)
    return float((low + high) / 2)
