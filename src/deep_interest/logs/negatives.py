"""Negative sampling: items that a user has not interacted with, uniformly or by popularity, or other items of the same list."""

from typing import Literal

import numpy as np

Sampler = Literal["uniform", "popularity"]
_ROUNDS = 64


def sample_negatives(
    users: np.ndarray,
    *,
    seen_users: np.ndarray,
    seen_items: np.ndarray,
    pool: np.ndarray,
    weights: np.ndarray | None = None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Sample one item of the pool for each row that its user never interacted with.

    Args:
        users: ``(n,)`` user code of each row.
        seen_users, seen_items: ``(N,)`` (user, item) pairs to exclude, in any order.
        pool: ``(m,)`` distinct item codes to sample from.
        weights: ``(m,)`` positive weights, proportional to the probabilities of the items; uniform if None.
        rng: random generator.

    Returns:
        ``(n,)`` int32 item codes; 0 if the user has interacted with the whole pool, so that no negative exists.
    """
    seen = np.sort(pack_pairs(seen_users, seen_items))
    draw = _drawer(pool, weights, rng)
    negatives = draw(len(users))
    open_rows = np.arange(len(users))
    for _ in range(_ROUNDS):
        open_rows = open_rows[contains_pairs(seen, pack_pairs(users[open_rows], negatives[open_rows]))]
        if not len(open_rows):
            return negatives
        negatives[open_rows] = draw(len(open_rows))
    for row in open_rows[contains_pairs(seen, pack_pairs(users[open_rows], negatives[open_rows]))]:
        negatives[row] = _draw_from_complement(users[row], seen, pool, weights, rng)
    return negatives


def list_negatives(
    requests: np.ndarray,
    labels: np.ndarray,
    sampled: np.ndarray,
    per_click: int,
    *,
    draws: np.random.Generator | np.ndarray,
) -> np.ndarray:
    """Choose the rows to keep if each click is paired with a few items of its list that were not clicked (NRMS, Wu et al. 2019, §2.3).

    A list with p clicks and n other items keeps ``min(n, p * per_click)`` of these, so none without a click.

    Args:
        requests: ``(n,)`` list of each row.
        labels: ``(n,)`` in {0, 1}.
        sampled: ``(n,)`` bool, rows whose lists are reduced; all others are kept.
        per_click: negatives of a click.
        draws: random generator, or hashes ``(n,)`` of the rows, of which the smallest of each list are kept.

    Returns:
        ``(n,)`` bool.
    """
    rows = np.flatnonzero(sampled & (labels == 0))
    clicks = np.bincount(requests[sampled & (labels == 1)], minlength=int(requests.max(initial=0)) + 1)
    drawn = draws[rows] if isinstance(draws, np.ndarray) else draws.random(len(rows))
    order = np.lexsort((drawn, requests[rows]))
    of_list = requests[rows][order]
    first = np.searchsorted(of_list, of_list)  # of the same list
    kept = np.ones(len(requests), bool)
    kept[rows[order]] = np.arange(len(rows)) - first < per_click * clicks[of_list]
    return kept


def _drawer(pool: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator):
    if weights is None:
        return lambda n: pool[rng.integers(0, len(pool), n)].astype(np.int32)
    cumulative = np.cumsum(weights, dtype=np.float64)
    top = len(pool) - 1
    return lambda n: pool[
        np.minimum(np.searchsorted(cumulative, rng.random(n) * cumulative[-1], "right"), top)
    ].astype(np.int32)


def _draw_from_complement(
    user: int, seen: np.ndarray, pool: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator
) -> int:
    """Sample from the items that remain for a user who has interacted with nearly the whole pool; 0 if there are none."""
    free = ~contains_pairs(seen, pack_pairs(np.full(len(pool), user), pool))
    if not free.any():
        return 0
    chance = None if weights is None else weights[free] / weights[free].sum()
    return int(rng.choice(pool[free], p=chance))


def pack_pairs(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return one int64 for each pair of a user and an item code, ``(n,)``."""
    return (users.astype(np.int64) << 32) | items.astype(np.int64)


def contains_pairs(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return whether each of the ``keys (n,)`` occurs in ``sorted_keys (N,)``, which has at least one, ``(n,)`` bool."""
    positions = np.searchsorted(sorted_keys, keys)
    positions[positions == len(sorted_keys)] = 0
    return sorted_keys[positions] == keys
