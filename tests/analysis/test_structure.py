"""Measures of structure against values computed by hand."""

import numpy as np
import pytest

from deep_interest.analysis.attribution import BehaviorAttention
from deep_interest.analysis.structure import attention_on_related, cluster_silhouette, state_movement


def attention_of(sample, weight):
    sample = np.array(sample)
    return BehaviorAttention(sample, np.zeros(len(sample)), np.array(weight, float), {}, {})


def test_attention_on_related_behaviours_by_hand():
    attention = attention_of(
        [0, 0, 0, 1, 1, 2], [0.5, 0.3, 0.2, -0.9, 0.1, 1.0]
    )  # without softmax the sign is arbitrary
    related = np.array([True, False, True, False, True, True])  # the third sample has one kind only
    found = attention_on_related(attention, related)
    assert found["weight_share"] == pytest.approx((0.7 + 0.1) / 2)
    assert found["count_share"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert found["auc"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["samples"] == 2


def test_steps_of_the_interest_state_by_hand():
    states = np.array([[3.0, 4.0], [3.0, 4.0], [1.0, 0.0], [1.0, 2.0]])
    steps = state_movement(
        attention_of([0, 0, 1, 1], [1, 1, 1, 1]), states, np.array([True, False, False, True])
    )
    assert steps == pytest.approx({"related": (5 + 2) / 2, "other": (0 + 1) / 2, "ratio": 7.0})


def test_well_separated_clusters_have_a_high_silhouette():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 20)
    apart = np.eye(4)[groups] + 0.01 * rng.standard_normal((40, 4))
    assert cluster_silhouette(apart, groups) > 0.95
    assert abs(cluster_silhouette(rng.standard_normal((40, 4)), groups)) < 0.2
    assert np.isnan(cluster_silhouette(apart, np.zeros(40, int)))
