"""Interests of users and their drift over time."""

from dataclasses import dataclass

import numpy as np

from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.users import Users
from deep_interest.simulation.world import World


@dataclass(frozen=True)
class Interests:
    """Interests of a block of n users: S slots per user, and a sequence of M stages per slot.

    Attributes:
        slot_cumulative: cumulative shares of the slots in the user's attention, shape (n, S).
        category, style, shop: category, style and shop of each stage, flattened, shape (n * S * M,).
        begin: start of each stage as ``slot_index * horizon + second``, ascending, shape (n * S * M,).
        stages: number of stages per slot, M.
        horizon: length of the log in seconds.
    """

    slot_cumulative: np.ndarray
    category: np.ndarray
    style: np.ndarray
    shop: np.ndarray
    begin: np.ndarray
    stages: int
    horizon: int

    def draw_slots(self, user: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw a slot of each ``user`` (k,) in proportion to the slots' shares; ``uniforms`` (k,) are in [0, 1)."""
        return (uniforms[:, None] >= self.slot_cumulative[user]).sum(axis=1)

    def stage_at(self, user: np.ndarray, slot: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the index, in the flattened arrays, of each slot's stage at ``second`` (k,) of the log."""
        slot_index = user * self.slot_cumulative.shape[1] + slot
        return np.searchsorted(self.begin, slot_index * self.horizon + second, side="right") - 1

    def earlier_stage(self, position: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw one of the slot's stages before ``position`` (k,); the first stage is returned unchanged."""
        return position - np.ceil(uniforms * (position % self.stages)).astype(np.int64)


def make_interests(config: SimulationConfig, world: World, users: Users, block: int) -> Interests:
    """Generate the interests of one block of users over the whole log."""
    rng = generator(config.seed, "interests", block)
    n, S = len(users.ids), config.interests_per_user[1]
    horizon = config.days * SECONDS_PER_DAY
    M = 4 + int(1.5 * config.days / config.interests.dwell_days)
    category, style, shop = _draw_stages(config, world, np.repeat(users.group, S), M, rng)
    dwell = rng.gamma(2.0, config.interests.dwell_days * SECONDS_PER_DAY / 2, size=(n * S, M))
    begin = np.cumsum(dwell, axis=1).astype(np.int64) - dwell[:, :1].astype(np.int64)
    begin = np.minimum(begin, horizon) + np.arange(n * S)[:, None] * horizon
    return Interests(
        slot_cumulative=_draw_attention(config.interests_per_user, n, rng),
        category=category.ravel(),
        style=style.ravel(),
        shop=shop.ravel(),
        begin=begin.ravel(),
        stages=M,
        horizon=horizon,
    )


def _draw_stages(
    config: SimulationConfig, world: World, group: np.ndarray, stages: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the category, style and shop of each stage of each of k slots, each of shape (k, stages)."""
    k = len(group)
    category, style, shop = (np.empty((k, stages), np.int64) for _ in range(3))
    new_slots, progress = (
        np.arange(k),
        rng.random(k),
    )  # at the start of the log, interests are already in progress
    for m in range(stages):
        if m > 0:
            previous = category[:, m - 1]
            path_end = world.path_start[world.category_theme[previous] + 1] - 1
            new_slots = np.flatnonzero(
                (previous == path_end) | (rng.random(k) < config.interests.end_probability)
            )
            category[:, m], style[:, m], shop[:, m] = previous + 1, style[:, m - 1], shop[:, m - 1]
        theme = world.themes.draw(group[new_slots], rng.random(len(new_slots)))
        length = np.diff(world.path_start)[theme] if m == 0 else 0
        category[new_slots, m] = world.path_start[theme] + (progress[new_slots] * length).astype(np.int64)
        style[new_slots, m] = rng.integers(config.styles, size=len(new_slots))
        shop[new_slots, m] = world.shops.draw(theme, rng.random(len(new_slots)))
    return category, style, shop


def _draw_attention(limits: tuple[int, int], n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the number of interests per user and return the cumulative shares of the slots, shape (n, S).

    Slots beyond a user's number of interests have no share.
    """
    minimum, maximum = limits
    count = rng.integers(minimum, maximum + 1, size=n)
    weight = 0.3 + rng.exponential(size=(n, maximum))
    weight[np.arange(maximum) >= count[:, None]] = 0.0
    shares = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    shares[:, -1] = 1.0
    return shares
