"""Metrics by request against hand-computed values and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, roc_auc_score

from deep_interest.evaluation.requests import REQUEST_METRICS, mean_request_metrics, request_metrics


def test_the_metrics_of_two_requests_by_hand():
    """Ranks of the clicks: 2 of 3 in request 7; 1 and 4 of 4 in request 3; request 5 has no click."""
    requests = [7, 3, 7, 3, 7, 3, 3, 5]
    labels = [0, 1, 1, 0, 0, 0, 1, 0]
    scores = [0.9, 0.8, 0.5, 0.7, 0.1, 0.6, 0.2, 0.4]
    metrics = request_metrics(requests, labels, scores)
    assert metrics["request_auc"] == pytest.approx((0.5 + 0.5) / 2)
    assert metrics["mrr"] == pytest.approx((1 / 2 + (1 + 1 / 4) / 2) / 2)
    one, two = 1 / np.log2(3), (1 + 1 / np.log2(5)) / (1 + 1 / np.log2(3))
    assert metrics["ndcg_5"] == pytest.approx((one + two) / 2)
    assert metrics["request_coverage"] == pytest.approx(2 / 3)


def test_gauc_by_request_weighs_requests_by_their_rows():
    metrics = request_metrics([1, 1, 2, 2, 2, 2], [1, 0, 1, 0, 0, 0], [0.9, 0.1, 0.1, 0.2, 0.3, 0.4])
    assert metrics["request_gauc"] == pytest.approx((2 * 1 + 4 * 0) / 6)
    assert metrics["request_auc"] == pytest.approx(0.5)


def reference(requests: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Return the metrics as the evaluation of MIND computes them, one request after the other."""
    rows = []
    for request in np.unique(requests):
        own = requests == request
        truth, predicted = labels[own], scores[own]
        if truth.min() == truth.max():
            continue
        ranks = np.argsort(np.argsort(-predicted)) + 1
        rows.append(
            (
                roc_auc_score(truth, predicted), (truth / ranks).sum() / truth.sum(),
                ndcg_score([truth], [predicted], k=5), ndcg_score([truth], [predicted], k=10),
            )
        )  # fmt: skip
    return dict(zip(("request_auc", "mrr", "ndcg_5", "ndcg_10"), np.mean(rows, axis=0), strict=True))


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_the_metrics_equal_those_of_the_mind_evaluation(seed):
    rng = np.random.default_rng(seed)
    requests = rng.integers(0, 6, 80)
    labels = (rng.random(80) < 0.3).astype(int)
    labels[:2], requests[:2] = (0, 1), 0
    scores = rng.permutation(80) / 80
    metrics = request_metrics(requests, labels, scores)
    for name, value in reference(requests, labels, scores).items():
        assert metrics[name] == pytest.approx(value), name


def test_equal_scores_earn_no_more_than_a_random_order():
    requests = np.repeat(np.arange(2000), 4)
    labels = np.tile([1, 0, 0, 0], 2000)
    metrics = request_metrics(requests, labels, np.zeros(8000))
    assert metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, abs=0.02)


def test_requests_of_one_class_give_no_metrics():
    metrics = request_metrics([1, 1, 2], [1, 1, 0], [0.3, 0.2, 0.1])
    assert metrics["request_coverage"] == 0
    assert all(np.isnan(metrics[name]) for name in REQUEST_METRICS[:-1])


def test_metrics_are_means_over_seeds():
    requests, labels = [1, 1], [1, 0]
    metrics = mean_request_metrics(requests, labels, [[0.9, 0.1], [0.1, 0.9]])
    assert metrics["request_auc"] == 0.5
    assert metrics["mrr"] == 0.75
