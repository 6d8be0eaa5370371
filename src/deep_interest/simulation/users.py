"""Profiles and activity of users."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.world import AGE_LEVELS, GENDERS

_AGE_SHARES = np.array([0.05, 0.13, 0.21, 0.22, 0.17, 0.12, 0.07, 0.03])
_CITY_SHARES = np.array([0.15, 0.25, 0.30, 0.20, 0.10])
_SHOPPING_BOUNDS = np.array([0.4, 1.2])  # upper bounds of the activity of shopping levels 1 and 2
SHOPPING_LEVELS = len(_SHOPPING_BOUNDS) + 1
_STUDENT_SHARES = np.array([0.6, 0.5, 0.15, 0.05, 0.02, 0.01, 0.0, 0.0])  # by age level


@dataclass(frozen=True)
class Users:
    """A block of users as arrays of shape (n,); levels start at 0.

    Attributes:
        ids: public ids, ascending.
        gender, age, city, shopping, student: profile features.
        activity: factor of the mean number of behaviours, with mean 1.
    """

    ids: np.ndarray
    gender: np.ndarray
    age: np.ndarray
    city: np.ndarray
    shopping: np.ndarray
    student: np.ndarray
    activity: np.ndarray

    @property
    def group(self) -> np.ndarray:
        """Profile group: the row index of `World.affinity`."""
        return self.gender * AGE_LEVELS + self.age


def make_users(config: SimulationConfig, block: int, *, count: int | None = None) -> Users:
    """Generate the users of one block; ``count`` overrides the number of users."""
    first = block * config.block_users
    n = count or min(config.block_users, config.users - first)
    rng = generator(config.seed, "users", block)
    age = rng.choice(AGE_LEVELS, size=n, p=_AGE_SHARES)
    activity = rng.gamma(1.5, 1 / 1.5, size=n)
    return Users(
        ids=first + 1 + np.arange(n),
        gender=rng.integers(GENDERS, size=n),
        age=age,
        city=rng.choice(len(_CITY_SHARES), size=n, p=_CITY_SHARES),
        shopping=np.searchsorted(_SHOPPING_BOUNDS, activity),
        student=(rng.random(n) < _STUDENT_SHARES[age]).astype(np.int64),
        activity=activity,
    )


def user_block(config: SimulationConfig, block: int) -> pd.DataFrame:
    """Return the profiles of one block: ``user`` (int64) and int8 features from 1 (``occupation`` 2 means student)."""
    users = make_users(config, block)
    features = {
        "gender": users.gender,
        "age_level": users.age,
        "city_level": users.city,
        "shopping_level": users.shopping,
        "occupation": users.student,
    }
    return pd.DataFrame(
        {"user": users.ids, **{name: (1 + level).astype(np.int8) for name, level in features.items()}}
    )


def user_blocks(config: SimulationConfig) -> Iterator[pd.DataFrame]:
    """Yield the profiles of all users, one block at a time, in the order of the user ids."""
    return (user_block(config, block) for block in range(config.blocks))
