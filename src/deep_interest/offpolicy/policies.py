"""From scores to the probabilities with which a policy shows items."""

import numpy as np
from numpy.typing import NDArray


def softmax(
    scores: NDArray[np.float64], request: NDArray[np.int64], temperature: float
) -> NDArray[np.float64]:
    """Return the probability of each candidate in a single slot, proportional to ``exp(score / temperature)``.

    Args:
        scores: ``(C,)`` score of each candidate of each request.
        request: ``(C,)`` number of the request, from 0.
        temperature: above 0; small values prefer the best candidates.
    """
    scaled = scores / temperature
    largest = np.full(request.max() + 1, -np.inf)
    np.maximum.at(largest, request, scaled)
    weight = np.exp(scaled - largest[request])
    return weight / np.bincount(request, weights=weight)[request]


def epsilon_greedy(
    scores: NDArray[np.float64],
    request: NDArray[np.int64],
    epsilon: float,
    slot: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the probability of each candidate in a slot of a policy that orders by score, and at random in a share of the requests.

    The k-th best candidate is in slot k with the probability ``1 - ε + ε / n`` and any other candidate with ``ε / n``, where n is the number of
    candidates of the request. Of equal scores the earlier candidate is better.

    Args:
        scores, request: see `softmax`.
        epsilon: share of the requests in random order, in [0, 1].
        slot: ``(C,)`` slot for which the probability is asked, from 1; the first if None.
    """
    order = np.lexsort((np.arange(len(scores)), -scores, request))
    counts = np.bincount(request)
    firsts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    rank = np.empty(len(scores), np.int64)
    rank[order] = np.arange(len(scores)) - firsts[request[order]]
    is_best = rank == (0 if slot is None else slot - 1)
    return (1 - epsilon) * is_best + epsilon / counts[request]
