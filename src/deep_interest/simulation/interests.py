"""The users' interests and how they drift: what a user is after at each moment."""

from dataclasses import dataclass

import numpy as np

from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.users import Users
from deep_interest.simulation.world import World


@dataclass(frozen=True)
class Interests:
    """The interests of a block of n users: S slots each, each slot a succession of M stages.

    Attributes:
        slot_cumulative: running share of the slots in the user's attention, shape (n, S).
        category, style, shop: of each stage, flattened, shape (n * S * M,).
        begin: ``row * horizon + second`` at which each stage begins, ascending, shape (n * S * M,).
        stages: M.
        horizon: seconds from the first day's begin to the last day's end.
    """

    slot_cumulative: np.ndarray
    category: np.ndarray
    style: np.ndarray
    shop: np.ndarray
    begin: np.ndarray
    stages: int
    horizon: int

    def choose_slots(self, user: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw a slot of each ``user`` (k,) of the block by the slots' shares; shape (k,)."""
        return (uniforms[:, None] >= self.slot_cumulative[user]).sum(axis=1)

    def stage_at(self, user: np.ndarray, slot: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the position, in the flattened arrays, of the stage at ``second`` (k,) since the horizon's begin."""
        row = user * self.slot_cumulative.shape[1] + slot
        return np.searchsorted(self.begin, row * self.horizon + second, side="right") - 1

    def earlier_stage(self, position: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw one of the slot's stages before ``position`` (k,); the first stage stays itself."""
        return position - np.ceil(uniforms * (position % self.stages)).astype(np.int64)


def make_interests(config: SimulationConfig, world: World, users: Users, block: int) -> Interests:
    """Draw the interests of one block of users over the whole horizon."""
    rng = generator(config.seed, "interests", block)
    n, S = len(users.ids), config.interests_per_user[1]
    horizon = config.days * SECONDS_PER_DAY
    M = 4 + int(1.5 * config.days / config.interests.dwell_days)
    category, style, shop = _walk(config, world, np.repeat(users.group, S), M, rng)
    dwell = rng.gamma(2.0, config.interests.dwell_days * SECONDS_PER_DAY / 2, size=(n * S, M))
    begin = np.cumsum(dwell, axis=1).astype(np.int64) - dwell[:, :1].astype(np.int64)
    begin = np.minimum(begin, horizon) + np.arange(n * S)[:, None] * horizon
    return Interests(
        slot_cumulative=_attention(config.interests_per_user, n, rng),
        category=category.ravel(),
        style=style.ravel(),
        shop=shop.ravel(),
        begin=begin.ravel(),
        stages=M,
        horizon=horizon,
    )


def _walk(
    config: SimulationConfig, world: World, group: np.ndarray, stages: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walk each of k slots through its ``stages``; category, style and shop of each, shape (k, stages)."""
    k = len(group)
    category, style, shop = (np.empty((k, stages), np.int64) for _ in range(3))
    begins, at_start = np.arange(k), rng.random(k)  # the log begins in the middle of the interests' lives
    for m in range(stages):
        if m > 0:
            last = category[:, m - 1]
            path_end = world.path_start[world.category_theme[last] + 1] - 1
            begins = np.flatnonzero((last == path_end) | (rng.random(k) < config.interests.end_probability))
            category[:, m], style[:, m], shop[:, m] = last + 1, style[:, m - 1], shop[:, m - 1]
        theme = world.themes.draw(group[begins], rng.random(len(begins)))
        length = np.diff(world.path_start)[theme] if m == 0 else 0
        category[begins, m] = world.path_start[theme] + (at_start[begins] * length).astype(np.int64)
        style[begins, m] = rng.integers(config.styles, size=len(begins))
        shop[begins, m] = world.shops.draw(theme, rng.random(len(begins)))
    return category, style, shop


def _attention(fewest_most: tuple[int, int], n: int, rng: np.random.Generator) -> np.ndarray:
    """Running shares of the slots in each user's attention, slots beyond the user's number having none; (n, S)."""
    fewest, most = fewest_most
    count = rng.integers(fewest, most + 1, size=n)
    weight = 0.3 + rng.exponential(size=(n, most))
    weight[np.arange(most) >= count[:, None]] = 0.0
    shares = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    shares[:, -1] = 1.0
    return shares
