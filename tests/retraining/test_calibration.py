"""Calibration of a challenger: who calibrates and who judges, sampled negatives, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy.special import expit, logit

from deep_interest.errors import InputError
from deep_interest.evaluation.calibration import IsotonicCalibration
from deep_interest.retraining.calibration import calibration_segments, check_can_calibrate, fit_calibration
from deep_interest.retraining.gate import judge
from deep_interest.retraining.parameters import CalibrationParameters, GateParameters

ISOTONIC = CalibrationParameters(method="isotonic", minimum_clicks=10)
SAMPLED = CalibrationParameters(method="sampling", negatives_kept=0.25)
USERS = np.repeat(np.arange(1, 1001), 20)


def day(seed=0, users=USERS):
    """True probabilities of about 6 % and clicks."""
    rng = np.random.default_rng(seed)
    truth = expit(rng.normal(-3.2, 1.2, len(users)))
    return truth, (rng.random(len(users)) < truth).astype(np.int8)


def fit(labels, ctr, parameters=ISOTONIC, *, users=USERS, kept=1.0, seed=1):
    return fit_calibration(users, labels, ctr, parameters, kept=kept, seed=seed)


def test_about_half_of_the_users_calibrate_with_all_their_impressions():
    truth, labels = day()
    found = fit(labels, truth)
    by_user = found.weights.reshape(1000, 20)
    assert (by_user == by_user[:, :1]).all()
    assert set(found.weights) == {0.0, 1.0}
    assert 420 < (by_user[:, 0] == 0).sum() < 580
    assert (fit(labels, truth, seed=2).weights != found.weights).any()
    assert found.facts == {
        "method": "isotonic", "negatives_kept": 1.0, "negatives_logged": 1.0, "users": (by_user[:, 0] == 0).sum(),
        "samples": (found.weights == 0).sum(), "clicks": labels[found.weights == 0].sum(),
    }  # fmt: skip


def test_the_labels_of_the_judging_users_do_not_change_the_map():
    truth, labels = day()
    found = fit(labels, truth**2)
    chosen, scores = found.weights == 0, np.linspace(0, 1, 50)
    expected = IsotonicCalibration.fit(labels[chosen], truth[chosen] ** 2)
    np.testing.assert_array_equal(found.calibration(scores), expected(scores))
    other = np.where(chosen, labels, 1 - labels)
    np.testing.assert_array_equal(fit(other, truth**2).calibration(scores), expected(scores))


def test_the_gate_sees_the_same_order_and_better_probabilities():
    truth, labels = day()
    ctr = np.sqrt(truth).astype(np.float32)
    found, popularity, gate = fit(labels, ctr), np.full(len(ctr), 0.5), GateParameters()
    before = judge(USERS, labels, ctr, None, gate, popularity=popularity, weights=found.weights)
    after = judge(
        USERS, labels, found.calibration(ctr), None, gate, popularity=popularity, weights=found.weights
    )
    assert (after.challenger.gauc, after.challenger.auc) == (before.challenger.gauc, before.challenger.auc)
    assert after.gain == before.gain
    judged = found.weights > 0
    observed = labels[judged].mean()
    assert before.challenger.calibration == pytest.approx(ctr[judged].mean() / observed, rel=1e-6)
    assert after.challenger.calibration == pytest.approx(1, abs=0.1)
    assert before.challenger.calibration > 2
    assert after.challenger.logloss < before.challenger.logloss
    failed = [[check.name for check in verdict.checks if not check.passed] for verdict in (before, after)]
    assert failed == [["calibration"], []]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sampling", "isotonic"])
def test_probabilities_of_a_log_with_a_quarter_of_the_negatives_are_those_of_the_full_log(method):
    """The scores are those of a perfect model of the sampled log, whose odds are four times the true ones."""
    users = np.repeat(np.arange(1, 5001), 40)
    truth, labels = day(3, users)
    logged = (labels == 1) | (np.random.default_rng(4).random(len(labels)) < 0.25)
    users, truth, labels = users[logged], truth[logged], labels[logged]
    ctr = expit(logit(truth) + np.log(4))
    parameters = SAMPLED.model_copy(update={"method": method, "minimum_clicks": 10})
    found = fit(labels, ctr, parameters, users=users, kept=0.25)
    calibrated = found.calibration(ctr)
    if method == "sampling":
        assert calibrated == pytest.approx(truth)
    judged, full = found.weights > 0, np.where(labels == 1, 1, 4)
    assert found.weights[judged].tolist() == full[judged].tolist()
    assert calibrated[judged].mean() == pytest.approx(truth[judged].mean(), rel=0.03)
    whole, *deciles = calibration_segments(
        users, labels, ctr, calibrated, np.ones(len(users)), found.weights
    )[:11]
    assert whole.served[0] == pytest.approx(1, abs=0.04)
    assert whole.served[1] < 1 < whole.served[2]
    assert whole.model[0] > 2
    assert whole.observed == pytest.approx(
        expit(np.random.default_rng(0).normal(-3.2, 1.2, 10**6)).mean(), rel=0.05
    )
    assert sum(one.served[1] < 1 < one.served[2] for one in deciles) >= 7
    metrics = judge(
        users, labels, calibrated, None, GateParameters(), popularity=ctr, weights=found.weights
    ).challenger
    assert metrics.calibration == pytest.approx(whole.served[0])


def test_the_segments_by_hand():
    # User 2 has judged impressions only, of user 1 those with a weight.
    users, labels, weights = np.array([1, 1, 2, 2]), np.array([1, 1, 0, 1]), np.array([0, 1, 4, 1.0])
    before, after = np.array([0.9, 0.8, 0.5, 0.6]), np.array([0.9, 0.5, 0.1, 0.2])
    lengths = np.array([0, 0, 0, 7])
    segments = {one.name: one for one in calibration_segments(users, labels, before, after, lengths, weights)}
    whole = segments["all impressions"]
    assert (whole.samples, whole.clicks) == (3, 2)
    assert whole.observed == pytest.approx(2 / 6)
    assert (whole.model[0], whole.served[0]) == pytest.approx((3.4 / 2, 1.1 / 2))
    empty, some = segments["no behaviour"], segments["5 to 19 behaviours"]
    assert (empty.samples, empty.served[0]) == (2, pytest.approx(0.9 / 1))
    assert (some.samples, some.model[0]) == (1, pytest.approx(0.6))
    tenths = [name for name in segments if "decile" in name]
    assert len(tenths) == 3
    assert segments[tenths[0]].observed == 0
    assert np.isnan(segments[tenths[0]].served).all()


def test_too_few_clicks_leave_a_version_without_a_map_and_refuse_it():
    truth, labels = day()
    clicks = labels[fit(labels, truth).weights == 0].sum()
    for minimum, passed in ((clicks, True), (clicks + 1, False)):
        parameters = CalibrationParameters(method="isotonic", minimum_clicks=int(minimum))
        found = fit(labels, truth, parameters)
        (check,) = found.checks
        assert (check.found, check.passed) == (clicks, passed)
        assert found.calibration.changes == passed == (found.facts is not None)
    sampled = fit(labels, truth, parameters.model_copy(update={"negatives_kept": 0.5}), kept=0.5)
    assert sampled.calibration.negatives == 0.5
    assert sampled.facts["method"] == "sampling"


def test_nothing_is_calibrated_unless_a_method_is_chosen():
    truth, labels = day()
    found = fit(labels, truth, CalibrationParameters())
    assert (found.calibration.changes, found.facts, found.checks) == (False, None, ())
    assert (found.weights == 1).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "platt"}, "'none', 'sampling' or 'isotonic'"),
        ({"method": "sampling", "negatives_kept": 0}, "greater than 0"),
        ({"method": "sampling", "negatives_kept": 4}, "less than or equal to 1"),
        ({"negatives_kept": 0.25}, "set method to sampling or isotonic"),
        ({"negative_kept": 0.25}, "Extra inputs"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        CalibrationParameters.model_validate(values)


@pytest.mark.parametrize(
    ("parameters", "columns", "kept", "message"),
    [
        (ISOTONIC, ["weight"], 1.0, "the impressions have weights"),
        (SAMPLED, ["weight"], 1.0, "the impressions have weights"),
        (CalibrationParameters(method="sampling"), [], 1.0, "sampling corrects for sampled negatives, but all are"),
        (CalibrationParameters(), ["weight"], 1.0, None),
        (CalibrationParameters(method="sampling"), [], 0.4, None),
        (ISOTONIC, [], 1.0, None),
    ],
)  # fmt: skip
def test_what_cannot_be_calibrated_is_refused_before_the_fit(parameters, columns, kept, message):
    data = SimpleNamespace(samples=pd.DataFrame(columns=["user", *columns]), negatives_kept=kept)
    if message is None:
        check_can_calibrate(parameters, data)
    else:
        with pytest.raises(InputError, match=message):
            check_can_calibrate(parameters, data)
