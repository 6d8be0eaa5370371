"""Random choices by hash: they depend on the seed and on what is chosen, not on the order of the rows, the partition or the engine.

A choice is a function of ``(seed, purpose, keys)``, such as (0, ``NEGATIVE``, user code, position, attempt). All
implementations of the data path (NumPy, DuckDB, Spark) call the functions of this file, so their choices are equal.

The hash is that of SplitMix64 (Steele, Lea, Flood 2014, *Fast Splittable Pseudorandom Number Generators*): for each key,
the state is combined with the key and the golden-ratio increment, and mixed by Stafford's variant 13 of MurmurHash3's
finaliser. All arithmetic is modulo 2^64.
"""

from enum import IntEnum

import numpy as np

GOLDEN, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GOLDEN = np.uint64(GOLDEN)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class Purpose(IntEnum):
    """What a hash decides, so that different choices about the same keys are independent."""

    TIE = 1
    """Order of a user's events at the same time; keys: user, item."""
    USER_SPLIT = 2
    """Order of the users, of which the first are test users; key: user."""
    TRAINING_NEGATIVE = 3
    """Negative of a training sample; keys: user, position, attempt."""
    HELD_OUT_NEGATIVE = 4
    """Negative of a validation or test sample; keys: user, position, attempt."""
    LIST_NEGATIVE = 5
    """Order of the impressions of a request; keys: request, position in the request."""
    SHOWN_NEGATIVE = 6
    """Auxiliary negative of a behaviour; keys: user, position."""
    PARTITION = 7
    """Partition of a user; key: user."""
    CALIBRATION = 8
    """Whether the calibration of a version is fitted on the held-out impressions of a user; key: user."""
    FOLD = 9
    """Fold of a user in a cross-fitted model; key: user."""
    SIMULATION = 20
    """Draws of the simulated shop while a ranker serves it; first key: what is drawn, see `simulation.visits.Draw`."""


def hash64(seed: int, purpose: Purpose, *keys: np.ndarray | int) -> np.ndarray:
    """Return a hash of each row of the keys.

    Args:
        seed: seed, at least 0.
        purpose: what the hash decides.
        keys: integers ``(n,)`` or a single one for all rows; at least one array. Negative ones are taken modulo 2^64.

    Returns:
        ``(n,)`` uint64, uniform over all values.
    """
    with np.errstate(over="ignore"):
        state = np.array([first_state(seed, purpose)], np.uint64)
        for key in keys:
            state = _mix((state ^ np.atleast_1d(np.asarray(key)).astype(np.uint64)) + _GOLDEN)
    return state


def first_state(seed: int, purpose: Purpose) -> int:
    """Return the state of `hash64` before the first key."""
    with np.errstate(over="ignore"):
        return int(_mix(np.array([seed], np.uint64) + _GOLDEN * np.uint64(purpose))[0])


def hash63(seed: int, purpose: Purpose, *keys: np.ndarray | int) -> np.ndarray:
    """Return the upper 63 bits of `hash64` as non-negative int64, ``(n,)``: SQL engines have no unsigned integers in common."""
    return (hash64(seed, purpose, *keys) >> np.uint64(1)).astype(np.int64)


def below(hashes: np.ndarray, bound: int | np.ndarray) -> np.ndarray:
    """Scale hashes to integers below a bound: ``floor(hash * bound / 2^64)``, exactly.

    Args:
        hashes: ``(n,)`` uint64.
        bound: number of values, at least 1 and below 2^63, for all rows or for each row.

    Returns:
        ``(n,)`` int64 in ``[0, bound)``. Their probabilities differ by at most 2^-64.
    """
    width = np.asarray(bound).astype(np.uint64)
    high, low = hashes >> _HALF, hashes & _LOW
    width_high, width_low = width >> _HALF, width & _LOW
    middle = high * width_low + ((low * width_low) >> _HALF)
    cross = low * width_high + (middle & _LOW)
    return (high * width_high + (middle >> _HALF) + (cross >> _HALF)).astype(np.int64)


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return x ^ (x >> np.uint64(31))
