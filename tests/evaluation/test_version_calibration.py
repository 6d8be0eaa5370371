"""The calibration of a version: by hand, the order of scores in float32, and damaged files."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.evaluation.calibration import IsotonicCalibration
from deep_interest.evaluation.version_calibration import Calibration

MAP = IsotonicCalibration(np.array([0, 0.2, 0.6, 1]), np.array([0, 0.1, 0.7, 1]))


def test_the_correction_comes_before_the_map():
    # One negative in four: odds 1 become 1/4, p = 0.2, where the map has 0.1. Odds 4 become 1, p = 0.5: 0.1 + 0.6 · 0.3 / 0.4.
    assert Calibration(0.25, MAP)(np.float32([0.5, 0.8])) == pytest.approx([0.1, 0.55])
    assert Calibration(0.25)(np.float32([0.5, 0.8])) == pytest.approx([0.2, 0.5])
    assert Calibration(1.0, MAP)(np.float32([0.4, 0.8])) == pytest.approx([0.4, 0.85])


def test_without_a_calibration_scores_stay_the_same_array():
    scores = np.float32([[0.25, 0.5]])
    assert Calibration()(scores) is scores
    assert not Calibration().changes


def test_scores_of_many_users_keep_their_shape():
    calibrated = Calibration(0.5, MAP)(np.float32([[0.1, 0.2, 0.3], [0.9, 0.5, 0.4]]))
    assert (calibrated.shape, calibrated.dtype) == ((2, 3), np.float64)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    negatives=st.sampled_from([1.0, 0.25, 0.001]),
    begin=st.floats(1e-4, 0.999),
)
# Isotonic regression returns 1/4 twice, different by rounding.
@example(seed=2302, negatives=0.25, begin=0.625)
def test_neighbouring_float32_scores_are_never_equal_or_exchanged(seed, negatives, begin):
    """A flat map makes neighbours equal in float32, which would change AUC; in float64 it does not."""
    rng = np.random.default_rng(seed)
    truth = np.clip(rng.beta(0.7, 2, 400), 0.001, 0.999)
    labels = rng.random(400) < truth
    labels[:2] = 0, 1
    found = Calibration(
        negatives, IsotonicCalibration.fit(labels, np.clip(truth + rng.normal(0, 0.1, 400), 0, 1))
    )
    scores = (np.float32(begin).view(np.int32) + np.arange(2000, dtype=np.int32)).view(np.float32)
    scores = np.concatenate([scores[scores < 1], np.float32([1])])
    assert (np.diff(found(scores)) > 0).all()


def test_as_float32_neighbours_would_be_equal():
    scores = np.nextafter(np.float32(0.3), np.float32(1)).repeat(2)
    scores[0] = 0.3
    flat = Calibration(1.0, IsotonicCalibration(np.array([0, 0.1, 0.5, 1]), np.array([0, 0.5, 0.51, 1])))
    low, high = flat(scores)
    assert low < high
    assert np.float32(low) == np.float32(high)


@pytest.mark.parametrize("found", [Calibration(), Calibration(0.25), Calibration(0.5, MAP)])
def test_a_calibration_survives_a_file(found):
    again = Calibration.from_dict(json.loads(json.dumps(found.to_dict())))
    scores = np.linspace(0, 1, 101)
    np.testing.assert_array_equal(again(scores), found(scores))
    assert again.changes == found.changes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"negatives_kept": 0}, "negatives_kept: found 0"),
        ({"negatives_kept": 1.5}, "negatives_kept: found 1.5"),
        ({"negatives_kept": "a"}, "negatives_kept: found a"),
        ({"isotonic": {"scores": [0, 1]}}, "calibration: "),
        ({"isotonic": {"scores": [0, 1], "probabilities": [1, 0]}}, "ascending"),
    ],
)
def test_values_that_are_not_a_calibration_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Calibration.from_dict(Calibration(0.5, MAP).to_dict() | change)
