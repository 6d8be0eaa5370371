"""Weighted AUC and LogLoss against a loop over pairs, and against repeated samples."""

import numpy as np
import pytest

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import auc, logloss
from deep_interest.evaluation.weighted import weighted_auc, weighted_logloss


def pairs(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    won = total = 0.0
    for i in np.flatnonzero(labels == 1):
        for j in np.flatnonzero(labels == 0):
            total += weights[i] * weights[j]
            won += weights[i] * weights[j] * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
    return won / total


@pytest.mark.parametrize("seed", range(5))
def test_weighted_auc_is_the_share_of_weighted_pairs_in_order(seed):
    rng = np.random.default_rng(seed)
    labels, scores, weights = rng.integers(0, 2, 60), rng.integers(0, 15, 60) / 15, rng.exponential(size=60)
    assert weighted_auc(labels, scores, weights) == pytest.approx(pairs(labels, scores, weights))
    assert weighted_auc(labels, scores, np.full(60, 3.0)) == pytest.approx(auc(labels, scores))


def test_a_weight_of_2_is_a_sample_that_occurs_twice():
    labels, p, weights = np.array([1, 0, 0, 1]), np.array([0.7, 0.2, 0.9, 0.4]), np.array([1, 2, 1, 3])
    repeated = np.repeat(np.arange(4), weights)
    assert weighted_logloss(labels, p, weights) == pytest.approx(logloss(labels[repeated], p[repeated]))
    assert weighted_auc(labels, p, weights) == pytest.approx(auc(labels[repeated], p[repeated]))


def test_all_weight_on_one_class_gives_no_auc():
    assert np.isnan(weighted_auc([1, 0], [0.5, 0.4], [1.0, 0.0]))
    assert np.isnan(weighted_logloss([1, 0], [0.5, 0.4], [0.0, 0.0]))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_invalid_weights_are_an_error(weight):
    with pytest.raises(InputError, match="weights: row 1 is"):
        weighted_auc([1, 0], [0.5, 0.4], [1.0, weight])
