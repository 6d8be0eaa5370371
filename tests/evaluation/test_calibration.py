"""Calibration: values by hand, scikit-learn's isotonic regression, and the coverage of intervals on simulated clicks."""

import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from deep_interest.errors import InputError
from deep_interest.evaluation import (
    IsotonicCalibration,
    auc,
    calibration_by_segment,
    correct_for_sampling,
    deciles,
    gauc,
    logloss,
    shift_to_rate,
)


def clicks(rows: int, seed: int = 0):
    """Return features, true probabilities (mean about 6 %) and labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, rows)
    truth = expit(1.2 * x - 3.2)
    return x, truth, (rng.random(rows) < truth).astype(int)


def test_the_correction_by_hand():
    # One negative in four was kept: odds of 1 in the sample are odds of 1/4.
    assert correct_for_sampling([0.5], negatives=0.25) == pytest.approx([0.2])
    # Odds 3 in the sample, one positive in two kept: odds 6 · 0.1 of negatives
    assert correct_for_sampling([0.75], negatives=0.1, positives=0.5) == pytest.approx([0.6 / 1.6])
    assert correct_for_sampling([0.0, 1.0, 0.3]).tolist() == pytest.approx([0, 1, 0.3])
    assert correct_for_sampling([0.0, 1.0], negatives=0.01).tolist() == [0, 1]


@pytest.mark.slow
def test_a_model_of_sampled_negatives_is_corrected_to_the_full_log():
    x, truth, label = clicks(400_000)
    kept = (label == 1) | (np.random.default_rng(1).random(len(label)) < 0.1)
    model = LogisticRegression(C=1e6).fit(x[kept, None], label[kept])
    sampled = model.predict_proba(x[:, None])[:, 1]
    corrected = correct_for_sampling(sampled, negatives=0.1)
    assert sampled.mean() > 4 * truth.mean()
    assert corrected.mean() == pytest.approx(truth.mean(), rel=0.01)
    assert corrected == pytest.approx(truth, abs=0.01)
    assert auc(label, corrected) == pytest.approx(auc(label, sampled))


@pytest.mark.slow
def test_drawn_negatives_are_corrected_by_the_rate_of_the_full_log():
    x, truth, label = clicks(400_000)
    rng = np.random.default_rng(2)
    positives, negatives = np.flatnonzero(label == 1), np.flatnonzero(label == 0)
    rows = np.concatenate([positives, rng.choice(negatives, 4 * len(positives))])  # 1 : 4
    model = LogisticRegression(C=1e6).fit(x[rows, None], label[rows])
    shifted = shift_to_rate(model.predict_proba(x[:, None])[:, 1], label.mean())
    assert shifted.mean() == pytest.approx(label.mean(), rel=1e-9)
    assert shifted == pytest.approx(truth, abs=0.01)
    table = calibration_by_segment(label, shifted, deciles(shifted))
    assert table["ratio"].between(0.9, 1.1).all()


def test_the_shift_is_one_constant_of_the_log_odds():
    p = np.array([0.1, 0.4, 0.9])
    shifted = shift_to_rate(p, 0.05)
    logits = np.log(shifted / (1 - shifted)) - np.log(p / (1 - p))
    assert logits == pytest.approx([logits[0]] * 3)


def test_the_blocks_are_those_of_scikit_learn():
    _, truth, label = clicks(5000, seed=3)
    raw = truth**2  # monotone, and far too low
    found = IsotonicCalibration.fit(label, raw)
    fitted = IsotonicRegression().fit(raw, label).predict(raw)
    inner = found.probabilities[1:-1]
    levels = np.unique(fitted)
    assert inner[1:-1] == pytest.approx(levels[1:-1])  # all but the ends, which are moved off 0 and 1
    centre = raw[fitted == levels[1]].mean()
    assert found([centre]) == pytest.approx([levels[1]])


@pytest.mark.slow
def test_calibration_makes_probabilities_true_and_keeps_the_order():
    _, truth, label = clicks(2_000_000, seed=4)
    raw = np.sqrt(truth)  # far too high
    half = len(label) // 2
    found = IsotonicCalibration.fit(label[:half], raw[:half])
    calibrated = found(raw[half:])
    tenth = deciles(calibrated)
    ratios = np.bincount(tenth, weights=calibrated)[1:] / np.bincount(tenth, weights=truth[half:])[1:]
    assert ratios == pytest.approx(1, abs=0.1)
    assert ratios[4:] == pytest.approx(1, abs=0.02)  # where most clicks are
    assert (calibrated.mean() / label[half:].mean()) == pytest.approx(1, abs=0.02)
    assert logloss(label[half:], calibrated) < logloss(label[half:], raw[half:]) - 0.01
    users = np.arange(half) // 20
    assert gauc(users, label[half:], calibrated) == gauc(users, label[half:], raw[half:])


def test_no_block_says_never_or_always():
    found = IsotonicCalibration.fit([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9])
    low, high = found([0.15, 0.85])
    assert 0 < low < 0.5 < high < 1


def test_weights_count_as_repeated_rows():
    labels, p = np.array([0, 1, 0, 1]), np.array([0.1, 0.3, 0.4, 0.9])
    repeated = IsotonicCalibration.fit(np.repeat(labels, [1, 2, 3, 1]), np.repeat(p, [1, 2, 3, 1]))
    weighted = IsotonicCalibration.fit(labels, p, weights=[1, 2, 3, 1])
    assert weighted.scores == pytest.approx(repeated.scores)
    assert weighted.probabilities == pytest.approx(repeated.probabilities)


def test_a_map_survives_a_file():
    found = IsotonicCalibration.fit([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.9])
    again = IsotonicCalibration.from_dict(json.loads(json.dumps(found.to_dict())))
    p = np.linspace(0, 1, 11)
    assert again(p).tolist() == found(p).tolist()


@pytest.mark.parametrize(
    "values",
    [
        {}, {"scores": [0, 1]}, {"scores": "no", "probabilities": [0, 1]}, {"scores": [0, 0.5], "probabilities": [0, 1]},
        {"scores": [0, 1], "probabilities": [1, 0]}, {"scores": [0, 1], "probabilities": [0, 2]},
    ],
)  # fmt: skip
def test_a_damaged_map_is_refused(values):
    with pytest.raises(InputError, match="calibration"):
        IsotonicCalibration.from_dict(values)


def test_the_segments_by_hand():
    # Segment a: users 1 (p - R y: .5 + .1 - 1.2 = -.6) and 2 (.6 - 0 = .6) with R = 1.2 / 1.
    table = calibration_by_segment(
        [1, 0, 0, 0], [0.5, 0.1, 0.6, 0.2], ["a", "a", "a", "b"], users=[1, 1, 2, 2]
    )
    first = table.iloc[0]
    assert (first["samples"], first["positives"]) == (3, 1)
    assert (first["predicted"], first["observed"], first["ratio"]) == pytest.approx((0.4, 1 / 3, 1.2))
    error = np.sqrt(2 / 1 * (0.6**2 + 0.6**2)) / 1.2
    factor = np.exp(12.7062047 * error)  # t quantile with one degree of freedom
    assert (first["ratio_low"], first["ratio_high"]) == pytest.approx((1.2 / factor, 1.2 * factor))
    assert np.isnan(table.iloc[1]["ratio"])


@pytest.mark.slow
def test_the_intervals_cover_as_often_as_they_say_although_clicks_of_a_user_depend():
    rng, covered, naive = np.random.default_rng(5), [], []
    for _ in range(600):
        users = np.repeat(np.arange(300), 10)
        truth = expit(-2 + rng.normal(0, 1.2, 300))[users]
        label = rng.random(3000) < truth
        mean = expit(-2 + 1.2 * np.random.default_rng(0).normal(0, 1, 200_000)).mean()
        predicted = np.full(3000, mean)  # the true rate of the population: a ratio of 1
        for found, of in ((covered, users), (naive, None)):
            row = calibration_by_segment(label, predicted, np.zeros(3000), users=of).iloc[0]
            found.append(row["ratio_low"] <= 1 <= row["ratio_high"])
    assert 0.93 <= np.mean(covered) <= 0.975
    assert np.mean(naive) < 0.9


def test_deciles_have_equally_many_rows_in_order():
    p = np.random.default_rng(6).random(1000)
    tenth = deciles(p)
    assert np.bincount(tenth)[1:].tolist() == [100] * 10
    assert p[tenth == 3].max() < p[tenth == 4].min()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: correct_for_sampling([0.5], negatives=0), "negatives: found 0"),
        (lambda: correct_for_sampling([1.5], negatives=0.1), "probabilities: row 0 is 1.5"),
        (lambda: shift_to_rate([0.0, 0.5], 0.1), "strictly between 0 and 1"),
        (lambda: IsotonicCalibration.fit([1, 1], [0.5, 0.6]), "labels: found one class"),
        (lambda: IsotonicCalibration.fit([1, 0], [0.5, 0.6], weights=[1, 0]), "weights above 0"),
        (lambda: calibration_by_segment([1, 0], [0.5, 0.6], ["a"]), "expected one value per row"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
