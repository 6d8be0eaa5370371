"""How much a slot changes clicks: from the log alone, and given a model's predictions.

With ``e_k`` the probability that slot k is examined, relative to a reference slot, and ``r`` the relevance of the shown item, the
position-based model is ``P(click) = e_k r`` (Craswell et al. 2008).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit, ndtri

from deep_interest.errors import InputError

_STEPS, _TOLERANCE = 100, 1e-10
Array = NDArray[np.float64]


def harvested_examination(
    groups: ArrayLike, slots: ArrayLike, labels: ArrayLike, *, reference: int = 1
) -> Array:
    """Estimate the examination of each slot from impressions that differ in nothing else that matters to a click.

    Rows of a group, such as those of one item and user, have the same relevance ``r_g`` up to chance, so that the clicks of the group are
    distributed over its rows in proportion to ``e_k``: maximise

        Σ_g Σ_i y_i (θ_k(i) - log Σ_{j in g} exp(θ_k(j))),    e = exp(θ), θ = 0 in the reference slot.

    This is intervention harvesting (Agarwal et al. 2019) by the conditional likelihood of Poisson regression with an effect per group
    (Hausman, Hall & Griliches 1984), which is consistent for clicks of 0 and 1 as well (Wooldridge 1999).

    Args:
        groups: ``(n,)`` integer group of each impression.
        slots: ``(n,)`` slots from 1.
        labels: ``(n,)`` clicks, 0 or 1.
        reference: slot whose examination is 1.

    Returns:
        ``(K,)`` examination of slot k + 1.

    Raises:
        InputError: a slot has no click in a group that was shown in other slots too, so that it cannot be compared.
    """
    groups, slots, y = np.asarray(groups), np.asarray(slots, np.int64), np.asarray(labels, np.float64)
    K = int(slots.max())
    _, group = np.unique(groups, return_inverse=True)
    counts = sparse.csr_matrix((np.ones(len(y)), (group, slots - 1)))  # duplicate entries are summed
    clicks = np.bincount(group, weights=y)
    used = (clicks > 0) & (np.diff(counts.indptr) > 1)
    counts, clicks = counts[used], clicks[used]
    clicks_by_slot = np.bincount(slots - 1, weights=y * used[group], minlength=K).astype(np.float64)
    _check_comparable(counts, clicks_by_slot, reference)
    free = np.arange(K) != reference - 1
    theta = np.zeros(K)
    for _ in range(_STEPS):
        share = counts.multiply(np.exp(theta)).tocsr()
        share = sparse.diags(1 / np.asarray(share.sum(axis=1)).ravel()) @ share
        weighted = sparse.diags(clicks) @ share
        expected = np.asarray(weighted.sum(axis=0)).ravel()
        information = np.diag(expected) - (share.T @ weighted).toarray()
        step = np.linalg.solve(information[np.ix_(free, free)], (clicks_by_slot - expected)[free])
        theta[free] += np.clip(step, -1, 1)
        if np.abs(step).max(initial=0) < _TOLERANCE:
            break
    return np.exp(theta)


def _check_comparable(counts: sparse.csr_matrix, clicks: Array, reference: int) -> None:
    """Check that each slot has clicks, and is linked to the reference by groups that were shown in both."""
    shown_together = (counts.T @ counts).toarray() > 0
    _, component = sparse.csgraph.connected_components(shown_together, directed=False)
    apart = np.flatnonzero((clicks == 0) | (component != component[reference - 1]))
    if len(apart):
        raise InputError(
            f"position_weights: slot {apart[0] + 1} cannot be compared with slot {reference}: no clicked group of impressions with the same "
            "values was shown in it and in other slots; name fewer columns under position_weights.same, or give examination as a list"
        )


@dataclass(frozen=True)
class SlotEffects:
    """Effects of slots relative to a reference slot, ``(K,)`` each; NaN for a slot without clicks.

    Attributes:
        value: relative examination ``e``, or difference in log-odds θ.
        low, high: 95 % interval over users.
    """

    value: Array
    low: Array
    high: Array


def slot_effects(
    users: ArrayLike,
    slots: ArrayLike,
    labels: ArrayLike,
    logits: ArrayLike,
    *,
    form: Literal["logit", "examination"],
    reference: int = 1,
    confidence: float = 0.95,
) -> SlotEffects:
    """Estimate the effect of each slot by maximum likelihood, given logits that do not depend on the slot.

    ``examination``: ``P(click) = e_k σ(logit)``; ``logit``: ``P(click) = σ(logit + θ_k)``. With logits of 0, the effects are the ratios of CTRs, or
    the differences of their log-odds, which relevance confounds. Intervals are cluster-robust: rows of a user may depend on each other.

    Args:
        users: ``(n,)`` users.
        slots: ``(n,)`` slots from 1.
        labels: ``(n,)`` clicks, 0 or 1.
        logits: ``(n,)`` logits for the reference slot.
        form: how a slot acts on clicks.
        reference: slot that the others are compared with.
        confidence: mass of the intervals.
    """
    slot, y, z = np.asarray(slots, np.int64), np.asarray(labels, np.float64), np.asarray(logits, np.float64)
    _, user = np.unique(np.asarray(users), return_inverse=True)
    K = int(slot.max())
    estimates = [_one_slot(z[slot == k], y[slot == k], form) for k in range(1, K + 1)]
    theta = np.array([of.theta for of in estimates])
    influence = np.zeros((int(user.max()) + 1, K))
    for k, of in enumerate(estimates):
        influence[:, k] = np.bincount(user[slot == k + 1], weights=of.influence, minlength=len(influence))
    difference = theta - theta[reference - 1]
    variance = ((influence - influence[:, [reference - 1]]) ** 2).sum(axis=0)
    width = ndtri((1 + confidence) / 2) * np.sqrt(variance)
    ends = difference, difference - width, difference + width
    return SlotEffects(*(np.exp(end) if form == "examination" else end for end in ends))


@dataclass(frozen=True)
class _Estimate:
    theta: float
    influence: Array


def _one_slot(z: Array, y: Array, form: str) -> _Estimate:
    """Estimate θ of the rows of one slot, and the influence of each row on it."""
    if not 0 < y.sum() < len(y):
        return _Estimate(np.nan, np.full(len(y), np.nan))
    theta = _start(z, y, form)
    for _ in range(_STEPS):
        score, information = _score(theta, z, y, form)
        step = score.sum() / information
        theta += float(np.clip(step, -0.5, 0.5))
        if abs(step) < _TOLERANCE:
            break
    return _Estimate(theta, score / information)


def _start(z: Array, y: Array, form: str) -> float:
    return float(np.log(y.mean() / expit(z).mean())) if form == "examination" else 0.0


def _score(theta: float, z: Array, y: Array, form: str) -> tuple[Array, Any]:
    """Return the derivative of each row's log-likelihood by θ, and the Fisher information of all rows."""
    if form == "logit":
        p = expit(z + theta)
        return y - p, (p * (1 - p)).sum()
    p = np.minimum(np.exp(theta) * expit(z), 0.99)
    return (y - p) / (1 - p), (p / (1 - p)).sum()
