"""AUC and LogLoss of weighted samples, such as samples with inverse propensities."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import PROBABILITY_CLIP

WEIGHTED_METRICS = ("weighted_auc", "weighted_logloss")


def weighted_auc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike) -> float:
    """Compute the share of pairs of a positive and a negative row that are in order, each pair with the product of its weights.

    A tie counts one half.

    Args:
        labels: ``(n,)`` in {0, 1}.
        scores: ``(n,)`` finite, any monotone scale.
        weights: ``(n,)`` at least 0.

    Returns:
        AUC in [0, 1]; NaN if all weight is on rows of one class.

    Raises:
        InputError: a weight is negative or not finite.
    """
    positive, scores, w = np.asarray(labels) == 1, np.asarray(scores), _checked(weights)
    _, group = np.unique(scores, return_inverse=True)
    won = np.bincount(group, weights=np.where(positive, w, 0.0))
    lost = np.bincount(group, weights=np.where(positive, 0.0, w))
    below = np.cumsum(lost) - lost
    pairs = won.sum() * lost.sum()
    return float((won * (below + lost / 2)).sum() / pairs) if pairs else float("nan")


def weighted_logloss(labels: ArrayLike, probabilities: ArrayLike, weights: ArrayLike) -> float:
    """Compute the weighted mean of the negative log-likelihood in nats; probabilities are clipped to [1e-7, 1 - 1e-7].

    Args:
        labels: ``(n,)`` in {0, 1}.
        probabilities: ``(n,)`` of a positive label, in [0, 1].
        weights: ``(n,)`` at least 0.

    Returns:
        LogLoss; NaN if every weight is 0.

    Raises:
        InputError: a weight is negative or not finite.
    """
    w = _checked(weights)
    p = np.clip(np.asarray(probabilities, np.float64), PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    losses = -np.where(np.asarray(labels) == 1, np.log(p), np.log1p(-p))
    return float(np.average(losses, weights=w)) if w.any() else float("nan")


def _checked(weights: ArrayLike) -> NDArray[np.float64]:
    w = np.asarray(weights, np.float64)
    invalid = ~(np.isfinite(w) & (w >= 0))
    if invalid.any():
        row = int(invalid.argmax())
        raise InputError(f"weights: row {row} is {w[row]}, expected finite numbers of at least 0")
    return w
