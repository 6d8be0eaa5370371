"""True probabilities: correction for sampled negatives, isotonic calibration, and calibration by segment with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, stdtrit

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import checked_labels, checked_probabilities
from deep_interest.evaluation.significance import CONFIDENCE, check_confidence

_SAME_LEVEL = 1e-6  # relative difference of two levels of isotonic regression that count as one


def correct_for_sampling(
    probabilities: ArrayLike, *, negatives: float = 1.0, positives: float = 1.0
) -> NDArray[np.float64]:
    """Correct probabilities of a model that was trained on sampled rows, by adding ``log(negatives / positives)`` to the log-odds.

    If negatives were kept with probability ``negatives``, the odds in the sample are ``1 / negatives`` times the true odds (King and Zeng
    2001; He et al. 2014, §6.3). The order of the rows stays.

    Args:
        probabilities: ``(n,)`` of the model, in [0, 1].
        negatives: probability with which a negative row was kept, in (0, 1].
        positives: probability with which a positive row was kept, in (0, 1].

    Raises:
        InputError: a value is outside its range.

    Example:
        >>> correct_for_sampling([0.5, 0.8], negatives=0.25).round(6).tolist()
        [0.2, 0.5]
    """
    for name, share in (("negatives", negatives), ("positives", positives)):
        if not 0 < share <= 1:
            raise InputError(f"{name}: found {share}, expected a share above 0 and at most 1, as 0.25")
    p = checked_probabilities(probabilities).astype(np.float64)
    odds = p * negatives
    return odds / (odds + (1 - p) * positives)


def shift_to_rate(probabilities: ArrayLike, rate: float) -> NDArray[np.float64]:
    """Add a constant to the log-odds, so that the mean of the probabilities is the rate of positives in the full log.

    For negatives that were drawn rather than kept from a log, such as four for each positive, where only the rate of the full log is known.

    Args:
        probabilities: ``(n,)`` of the model on rows of the full log, in (0, 1).
        rate: share of positives in the full log, in (0, 1).

    Raises:
        InputError: a value is outside its range.

    Example:
        >>> shift_to_rate([0.5, 0.5], 0.2).round(6).tolist()
        [0.2, 0.2]
    """
    p = checked_probabilities(probabilities).astype(np.float64)
    if not 0 < rate < 1 or not ((p > 0) & (p < 1)).all():
        raise InputError(
            f"rate, probabilities: found a rate of {rate}, expected values strictly between 0 and 1"
        )
    logits, low, high = logit(p), -40.0, 40.0
    low, high = low - logits.max(), high - logits.min()
    for _ in range(100):  # the mean grows with the constant
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logits + middle).mean() < rate else (low, middle)
    return expit(logits + (low + high) / 2)


@dataclass(frozen=True)
class IsotonicCalibration:
    """A monotone map from scores to probabilities, fitted to labels: centred isotonic regression (Oron and Flournoy 2017).

    Between the centres of the blocks of isotonic regression the map is linear, so that it is strictly increasing: calibrated rows keep
    their order, and AUC and GAUC do not change. Outside the blocks it continues to 0 and 1.

    Attributes:
        scores: ``(k,)`` ascending, from 0 to 1.
        probabilities: ``(k,)`` ascending, in [0, 1].
    """

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    @classmethod
    def fit(
        cls, labels: ArrayLike, probabilities: ArrayLike, *, weights: ArrayLike | None = None
    ) -> "IsotonicCalibration":
        """Fit the map to validation data.

        Args:
            labels: ``(n,)`` in {0, 1}.
            probabilities: ``(n,)`` of the model, in [0, 1].
            weights: ``(n,)`` weights of the rows, above 0; equal if left out.

        Raises:
            InputError: invalid labels, probabilities or weights, or only one class.

        Example:
            >>> found = IsotonicCalibration.fit([0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.9])
            >>> found([0.45]).round(3).tolist()  # of the two rows around it, one is positive
            [0.5]
        """
        from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415  # takes a second to import

        y, p = checked_labels(labels), checked_probabilities(probabilities).astype(np.float64)
        if len(y) != len(p):
            raise InputError("labels, probabilities: expected one value per row in each")
        w = _weights(weights, len(p))
        if y.all() or not y.any():
            raise InputError("labels: found one class, expected positive and negative rows to calibrate with")
        fitted = IsotonicRegression().fit(p, y.astype(np.float64), sample_weight=w).predict(p)
        levels, block = _blocks(fitted)
        total = np.bincount(block, weights=w).astype(np.float64)
        centres = np.bincount(block, weights=w * p) / total
        return cls(*_with_ends(centres, _inside(levels, total)))

    def __call__(self, probabilities: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated probabilities, ``(n,)``."""
        return np.interp(checked_probabilities(probabilities), self.scores, self.probabilities)

    def to_dict(self) -> dict[str, list[float]]:
        """Return plain values, as for a JSON file."""
        return {"scores": self.scores.tolist(), "probabilities": self.probabilities.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, list[float]]) -> "IsotonicCalibration":
        """Read what `to_dict` returned.

        Raises:
            InputError: the values are not an ascending map from [0, 1] to [0, 1].
        """
        try:
            scores, found = (np.asarray(values[name], np.float64) for name in ("scores", "probabilities"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"calibration: {error} is missing or not a list of numbers") from error
        ascending = scores.shape == found.shape and scores.ndim == 1 and len(scores) >= 2
        ascending = ascending and bool((np.diff(scores) > 0).all() and (np.diff(found) >= 0).all())
        if not ascending or scores[0] != 0 or scores[-1] != 1 or found[0] < 0 or found[-1] > 1:
            raise InputError(
                "calibration: expected ascending scores from 0 to 1 with ascending probabilities"
            )
        return cls(scores, found)


def calibration_by_segment(
    labels: ArrayLike,
    probabilities: ArrayLike,
    segments: ArrayLike,
    *,
    users: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """Compare predicted with observed rates by segment, with intervals.

    The interval of the ratio is that of a ratio of means (delta method on its logarithm). With ``users`` it allows for clicks of a user that
    depend on one another: the variance is over users. Without, rows count as independent, and the interval is too narrow if they are not.

    Args:
        labels: ``(n,)`` in {0, 1}.
        probabilities: ``(n,)`` predicted, in [0, 1].
        segments: ``(n,)`` group of each row, such as the placement, or `deciles` of the prediction.
        users: ``(n,)`` ids of the users.
        weights: ``(n,)`` weights of the rows, above 0, such as 1 / share for sampled negatives; equal if left out.
        confidence: mass of the intervals, in (0, 1).

    Returns:
        A row per segment: ``segment``, ``samples``, ``positives``, ``predicted`` and ``observed`` (weighted means), ``ratio`` (predicted over observed),
        ``ratio_low`` and ``ratio_high``; NaN in a segment without positives, or with one user.

    Raises:
        InputError: invalid labels, probabilities, weights or confidence, or unequal lengths.

    Example:
        >>> table = calibration_by_segment([1, 0, 0, 0], [0.5, 0.1, 0.3, 0.3], ["a", "a", "b", "b"])
        >>> table[["segment", "predicted", "observed", "ratio"]].round(2).values.tolist()
        [['a', 0.3, 0.5, 0.6], ['b', 0.3, 0.0, nan]]
    """
    check_confidence(confidence)
    y, p = checked_labels(labels).astype(np.float64), checked_probabilities(probabilities).astype(np.float64)
    groups = np.asarray(segments)
    clusters = np.arange(len(y)) if users is None else np.unique(np.asarray(users), return_inverse=True)[1]
    if not len(y) == len(p) == len(groups) == len(clusters):
        raise InputError("labels, probabilities, segments, users: expected one value per row in each")
    w = _weights(weights, len(y))
    rows = []
    for segment in np.unique(groups):
        chosen = groups == segment
        weighted = w[chosen] * y[chosen], w[chosen] * p[chosen]
        ratio, low, high = _ratio(*weighted, clusters[chosen], confidence)
        observed, predicted = (float(values.sum() / w[chosen].sum()) for values in weighted)
        rows.append(
            {
                "segment": segment, "samples": int(chosen.sum()), "positives": int(y[chosen].sum()),
                "predicted": predicted, "observed": observed,
                "ratio": ratio, "ratio_low": low, "ratio_high": high,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def deciles(probabilities: ArrayLike, *, bins: int = 10) -> NDArray[np.int64]:
    """Return the tenth of the rows that each row belongs to by its prediction, from 1 to ``bins``.

    Example:
        >>> deciles([0.1, 0.9, 0.3, 0.2], bins=2).tolist()
        [1, 2, 2, 1]
    """
    p = checked_probabilities(probabilities)
    return np.argsort(np.argsort(p, kind="stable"), kind="stable") * bins // len(p) + 1


def _weights(weights: ArrayLike | None, rows: int) -> NDArray[np.float64]:
    """Return the weight of each row, 1 if none are given."""
    w = np.ones(rows) if weights is None else np.asarray(weights, np.float64)
    if len(w) != rows or not (np.isfinite(w) & (w > 0)).all():
        raise InputError("weights: expected one value per row, weights above 0")
    return w


def _ratio(
    y: NDArray[np.float64], p: NDArray[np.float64], clusters: NDArray[np.integer], confidence: float
) -> tuple[float, float, float]:
    """Return predicted over observed with its interval, from the weighted labels and predictions of the rows."""
    _, cluster = np.unique(clusters, return_inverse=True)
    n = int(cluster.max()) + 1
    if not y.any():
        return np.nan, np.nan, np.nan
    ratio = float(p.sum() / y.sum())
    if n < 2 or ratio == 0:
        return ratio, np.nan, np.nan
    residuals = np.bincount(cluster, weights=p - ratio * y)  # sum to 0
    error = float(np.sqrt(n / (n - 1) * (residuals**2).sum())) / float(y.sum()) / ratio  # of the logarithm
    factor = float(np.exp(stdtrit(n - 1, (1 + confidence) / 2) * error))
    return ratio, ratio / factor, ratio * factor


def _blocks(fitted: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the ascending levels of isotonic regression, and the index of the level of each row.

    Neighbouring levels that differ by `_SAME_LEVEL` or less count as one. Isotonic regression may return a level twice, different by rounding
    alone; between the centres of two such blocks the map would be flat.
    """
    levels, index = np.unique(fitted, return_inverse=True)
    begins = np.append(True, np.diff(levels) > _SAME_LEVEL * levels[1:])
    return levels[begins], begins.cumsum()[index] - 1


def _inside(levels: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace levels of 0 and 1 by those of half a row of the other class: a finite block shows neither."""
    levels = levels.copy()
    levels[0] = max(levels[0], min(0.5 / (total[0] + 1), levels[1] / 2)) if levels[0] == 0 else levels[0]
    if levels[-1] == 1:
        levels[-1] = max(1 - 0.5 / (total[-1] + 1), (1 + levels[-2]) / 2)
    return levels


def _with_ends(
    centres: NDArray[np.float64], levels: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Add 0 and 1 at the ends of the scores, unless a block is there."""
    if centres[0] > 0:
        centres, levels = np.append(0.0, centres), np.append(0.0, levels)
    if centres[-1] < 1:
        centres, levels = np.append(centres, 1.0), np.append(levels, 1.0)
    return centres, levels
