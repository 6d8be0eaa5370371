"""Choices of the protocols by hash (``protocol.sampling: hashed``): the order of ties, the split of users, negatives.

`hashed_negatives` is also what DuckDB and Spark call for each partition of the users.
"""

import numpy as np

from deep_interest.logs.hashing import Purpose, below, hash63, hash64
from deep_interest.logs.negatives import contains_pairs, pack_pairs

ATTEMPTS = 64
"""Draws from the whole pool before a negative is drawn from the items that the user has not interacted with."""


def hashed_order(
    user: np.ndarray, item: np.ndarray, time: np.ndarray, seed: int, label: np.ndarray | None = None
) -> np.ndarray:
    """Return the order by user, time, hash of user and item, item, and label: it does not depend on the order of the rows.

    Args:
        user: ``(N,)`` user codes.
        item: ``(N,)`` item codes.
        time: ``(N,)`` int64.
        seed: seed of the hash.
        label: ``(N,)`` labels of impressions; None for behaviours.

    Returns:
        ``(N,)`` row indices. Rows that agree in all of them keep their order.
    """
    rising = (user[1:] > user[:-1]) | ((user[1:] == user[:-1]) & (time[1:] >= time[:-1]))
    order = np.arange(len(user)) if rising.all() else np.lexsort((time, user))
    sorted_user, sorted_time = user[order], time[order]
    repeated = np.zeros(len(order) + 1, bool)
    repeated[1:-1] = (sorted_user[1:] == sorted_user[:-1]) & (sorted_time[1:] == sorted_time[:-1])
    tied = np.flatnonzero(repeated[1:] | repeated[:-1])
    group = np.cumsum(~repeated[:-1])[tied]
    rows = order[tied]
    last = () if label is None else (label[rows],)
    order[tied] = rows[
        np.lexsort((*last, item[rows], hash63(seed, Purpose.TIE, user[rows], item[rows]), group))
    ]
    return order


def shuffled_users(users: np.ndarray, seed: int) -> np.ndarray:
    """Return user codes ``(n,)`` in the order of their hashes."""
    return users[np.lexsort((users, hash63(seed, Purpose.USER_SPLIT, users)))]


def hashed_negatives(
    users: np.ndarray,
    positions: np.ndarray,
    *,
    seen_users: np.ndarray,
    seen_items: np.ndarray,
    pool: np.ndarray,
    weights: np.ndarray | None = None,
    seed: int,
    purpose: Purpose,
) -> np.ndarray:
    """Choose one item of the pool for each target that its user never interacted with, by the hash of user, position and attempt.

    Args:
        users: ``(n,)`` user code of each target.
        positions: ``(n,)`` position of the target among the behaviours of its user.
        seen_users, seen_items: ``(N,)`` (user, item) pairs to exclude, in any order; at least those of ``users``.
        pool: ``(m,)`` distinct item codes to choose from, increasing.
        weights: ``(m,)`` positive integers, proportional to the probabilities of the items; uniform if None.
        seed: seed of the hash.
        purpose: `Purpose.TRAINING_NEGATIVE` or `Purpose.HELD_OUT_NEGATIVE`.

    Returns:
        ``(n,)`` int32 item codes; 0 if the user has interacted with the whole pool, so that no negative exists.
    """
    negatives = np.zeros(len(users), np.int32)
    if not len(users) or not len(pool):
        return negatives
    seen = np.sort(pack_pairs(seen_users, seen_items))
    upper = None if weights is None else np.cumsum(weights, dtype=np.int64)
    rows = np.arange(len(users))
    for attempt in range(ATTEMPTS):
        hashes = hash64(seed, purpose, users[rows], positions[rows], attempt)
        negatives[rows] = _drawn(hashes, pool, upper)
        rows = rows[contains_pairs(seen, pack_pairs(users[rows], negatives[rows]))]
        if not len(rows):
            return negatives
    hashes = hash64(seed, purpose, users[rows], positions[rows], ATTEMPTS)
    for row, hashed in zip(rows, hashes, strict=True):
        free = ~contains_pairs(seen, pack_pairs(np.full(len(pool), users[row]), pool))
        remaining = None if weights is None else np.cumsum(weights[free], dtype=np.int64)
        negatives[row] = _drawn(np.array([hashed]), pool[free], remaining)[0] if free.any() else 0
    return negatives


def _drawn(hashes: np.ndarray, pool: np.ndarray, upper: np.ndarray | None) -> np.ndarray:
    """Return the item of each hash; ``upper (m,)`` are the cumulative weights."""
    if upper is None:
        return pool[below(hashes, len(pool))]
    return pool[np.searchsorted(upper, below(hashes, int(upper[-1])), side="right")]
