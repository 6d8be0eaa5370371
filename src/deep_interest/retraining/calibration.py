"""Fit the calibration of a challenger on half of the users of the held-out day; the other half judges it.

The challenger has been trained on neither half. The map is strictly increasing, so that GAUC is the same with and without it and is
judged on all users; log loss and calibration are judged on the other half alone. The split is by a hash of the user, so that
impressions of one user, which depend on one another, are never in both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.calibration import IsotonicCalibration, calibration_by_segment, deciles
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.logs.hashing import Purpose, hash64
from deep_interest.retraining.gate import Check, Segment
from deep_interest.retraining.groups import length_groups
from deep_interest.retraining.parameters import CalibrationParameters
from deep_interest.retraining.window import Window


@dataclass(frozen=True)
class FittedCalibration:
    """The calibration of a challenger.

    Attributes:
        calibration: what is applied to the probabilities of its model.
        weights: ``(n,)`` weight of each held-out impression in log loss and calibration: 0 if the map was fitted on it.
        facts: description for the manifest, as JSON values; None if it changes nothing.
        checks: further conditions of the gate.
    """

    calibration: Calibration
    weights: NDArray[np.float64]
    facts: dict[str, Any] | None
    checks: tuple[Check, ...] = ()


def check_can_calibrate(parameters: CalibrationParameters, data: Window) -> None:
    """Check, before a model is trained, that its probabilities can be calibrated.

    Raises:
        InputError: the impressions have weights, or there are no sampled negatives to correct for.
    """
    if parameters.method == "none":
        return
    if "weight" in data.samples:
        raise InputError(
            "retraining.calibration.method: the impressions have weights (source.impressions.weight), and the probabilities are those of the "
            "weighted impressions; set it to none, or remove weight"
        )
    if parameters.method == "sampling" and share_kept(parameters, data) == 1:
        raise InputError(
            "retraining.calibration.method: sampling corrects for sampled negatives, but all are there: negatives_kept is 1, and the dataset "
            "has no protocol.list_negatives; set negatives_kept to the share of the negatives that the impressions have, or method to "
            "isotonic or none"
        )


def share_kept(parameters: CalibrationParameters, data: Window) -> float:
    """Return the share of all negatives that the model was trained on: those of the impressions, and of these those of the protocol."""
    return parameters.negatives_kept * data.negatives_kept


def fit_calibration(
    users: ArrayLike, labels: ArrayLike, ctr: np.ndarray, parameters: CalibrationParameters, *, kept: float, seed: int
) -> FittedCalibration:  # fmt: skip
    """Fit the calibration of a model on half of the users of the held-out day.

    If the impressions have a share of the negatives, each of these counts 1 / share, in the fit and in the gate.

    Args:
        users: ``(n,)`` codes of the users of the held-out impressions.
        labels: ``(n,)`` in {0, 1}.
        ctr: ``(n,)`` probabilities of the model, in the precision in which it serves.
        parameters: method.
        kept: share of the negatives that the model was trained on, see `share_kept`.
        seed: seed of the split of the users.
    """
    labels = np.asarray(labels)
    weights = np.where(labels == 1, 1.0, 1 / parameters.negatives_kept)
    if parameters.method == "none":
        return FittedCalibration(Calibration(), weights, None)
    calibration = Calibration(negatives=kept)
    facts: dict[str, Any] = {
        "method": "sampling",
        "negatives_kept": kept,
        "negatives_logged": parameters.negatives_kept,
    }
    if parameters.method == "sampling":
        return FittedCalibration(calibration, weights, facts)
    chosen = hash64(seed, Purpose.CALIBRATION, np.asarray(users)) % 2 == 0
    clicks = int(labels[chosen].sum())
    rarer = min(clicks, int(chosen.sum()) - clicks)
    judged = np.where(chosen, 0.0, weights)
    check = Check(
        "impressions of the rarer label to calibrate with", rarer, f"at least {parameters.minimum_clicks}",
        rarer >= parameters.minimum_clicks,
    )  # fmt: skip
    if not check.passed:
        return FittedCalibration(calibration, judged, facts if calibration.changes else None, (check,))
    corrected = calibration(ctr)[chosen]
    isotonic = IsotonicCalibration.fit(labels[chosen], corrected, weights=weights[chosen])
    facts |= {
        "method": "isotonic", "users": len(np.unique(np.asarray(users)[chosen])), "samples": int(chosen.sum()), "clicks": clicks,
    }  # fmt: skip
    return FittedCalibration(Calibration(kept, isotonic), judged, facts, (check,))


def calibration_segments(
    users: ArrayLike, labels: ArrayLike, before: np.ndarray, after: np.ndarray, lengths: ArrayLike, weights: np.ndarray
) -> tuple[Segment, ...]:  # fmt: skip
    """Compare predicted with observed rates of the judged impressions: of all, by decile of the prediction, and by length of the history.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        before, after: ``(n,)`` probabilities of the model, and those that are served.
        lengths: ``(n,)`` number of behaviours in the history.
        weights: ``(n,)`` weights; impressions with 0 are left out.
    """
    judged = weights > 0
    if not judged.any():
        return ()
    users, labels, lengths = (np.asarray(values)[judged] for values in (users, labels, lengths))
    before, after, weights = before[judged], after[judged], weights[judged]
    segments: list[Segment] = []
    for names, codes in _segmentations(after, lengths):
        tables = [
            calibration_by_segment(labels, ctr, codes, users=users, weights=weights)
            for ctr in (before, after)
        ]
        segments += _segments(names, *tables)
    return tuple(segments)


def _segmentations(ctr: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[dict[int, str], np.ndarray]]:
    """Yield the names of segments by their codes, and the code of each impression."""
    yield {0: "all impressions"}, np.zeros(len(ctr), int)
    yield {tenth: f"decile {tenth} of the prediction" for tenth in range(1, 11)}, deciles(ctr)
    yield length_groups(lengths)


def _segments(names: dict[int, str], before: pd.DataFrame, after: pd.DataFrame) -> Iterator[Segment]:
    for model, served in zip(before.itertuples(), after.itertuples(), strict=True):
        yield Segment(
            names[served.segment], served.samples, served.positives, served.observed,
            (model.ratio, model.ratio_low, model.ratio_high), (served.ratio, served.ratio_low, served.ratio_high),
        )  # fmt: skip
