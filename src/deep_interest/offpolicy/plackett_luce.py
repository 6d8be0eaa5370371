"""Sampling without replacement by score (Plackett-Luce), and with which probability it shows an item in a slot.

The first slot is drawn from ``softmax(score / temperature)``, each further one in the same way from the items that are left (Plackett, "The Analysis of
Permutations", Applied Statistics, 1975). That is the order of independent exponential arrival times with the rates ``λ = exp(score / temperature)``, so
an item is in slot k if exactly k - 1 others arrive before it:

    P(item i in slot k) = ∫ λ_i exp(-λ_i t) P(k - 1 of the others have arrived by t) dt.

The number of others is a sum of independent indicators. The integral is taken over the logarithm of t by the trapezoidal rule, which converges
exponentially for such functions.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEP = 0.25  # of the logarithm of time
_LARGEST_GAP = 40.0  # between the logits of items with consecutive ranks: exp(-40) is below rounding errors


def sample_order(scores: Floats, temperature: float, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the indices of all items in a random order.

    Args:
        scores: ``(n,)`` scores.
        temperature: above 0; small values prefer large scores.
        random: source of randomness.
    """
    return np.argsort(-(scores / temperature + random.gumbel(size=len(scores))), kind="stable")


def slot_probabilities(
    scores: Floats, temperature: float, slots: int, items: NDArray[np.int64] | None = None
) -> Floats:
    """Return the probability of items in the first slots, ``(len(items), slots)``.

    Args:
        scores: ``(n,)`` scores of all items that can be shown.
        temperature: see `sample_order`.
        slots: number of slots, at most n.
        items: indices of the items that are asked for; all if None.

    Example:
        >>> import numpy as np
        >>> slot_probabilities(np.log([2.0, 1.0, 1.0]), 1.0, 2).round(
        ...     3
        ... ).tolist()  # 1/2; then 1/4 × 2/3 + 1/4 × 2/3
        [[0.5, 0.333], [0.25, 0.333], [0.25, 0.333]]
    """
    asked = np.arange(len(scores)) if items is None else items
    logits = _without_gaps(scores / temperature)
    if slots == 1:
        return (np.exp(logits[asked]) / np.exp(logits).sum())[:, None]
    slowest = np.sort(logits)[::-1][min(slots, len(logits) - 1)]  # when it has arrived, all slots are filled
    times = np.arange(-_LARGEST_GAP, np.log(_LARGEST_GAP) - slowest, _STEP)
    rates = np.exp(np.minimum(logits[:, None] + times, 700.0))  # (n, times)
    arrived = -np.expm1(-rates)
    none = np.zeros((len(times), slots))
    none[:, 0] = 1.0
    for other in np.setdiff1d(np.arange(len(scores)), asked):
        none = _with(none, arrived[other])
    density = rates[asked] * np.exp(-rates[asked])  # of the logarithm of the arrival time
    return (density[..., None] * _others(arrived[asked], none)).sum(axis=1) * _STEP


def _without_gaps(logits: Floats) -> Floats:
    """Return logits of at most 0 in the same order, with gaps of at most `_LARGEST_GAP`: this bounds the range of the integral."""
    order = np.argsort(-logits, kind="stable")
    found = np.empty(len(logits))
    found[order] = -np.concatenate([[0.0], np.cumsum(np.minimum(-np.diff(logits[order]), _LARGEST_GAP))])
    return found


def _others(arrived: Floats, unasked: Floats) -> Floats:
    """Return for each item the distribution of the number of others that have arrived, ``(m, times, slots)``.

    Args:
        arrived: ``(m, times)`` probability that an item has arrived.
        unasked: ``(times, slots)`` distribution of the number of arrived items that are not among the m.
    """
    m, slots = len(arrived), unasked.shape[1]
    before, after = np.zeros((m, *unasked.shape)), np.zeros((m, *unasked.shape))
    before[0] = unasked
    after[-1, :, 0] = 1.0
    for index in range(1, m):
        before[index] = _with(before[index - 1], arrived[index - 1])
        after[-1 - index] = _with(after[-index], arrived[-index])
    found = np.zeros_like(before)
    for count in range(slots):
        found[..., count:] += before[..., count, None] * after[..., : slots - count]
    return found


def _with(counts: Floats, arrived: Floats) -> Floats:
    """Return the distribution of a number with one more item."""
    found = counts * (1 - arrived[:, None])
    found[:, 1:] += counts[:, :-1] * arrived[:, None]
    return found
