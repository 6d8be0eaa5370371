import numpy as np
import pytest

from deep_interest.retraining.gate import judge
from deep_interest.retraining.parameters import GateParameters

GATE = GateParameters(resamples=400)


def day(rng, *, users=300, per_user=8):
    """Users, true click probabilities and labels of one day."""
    user = np.repeat(np.arange(users), per_user)
    truth = 1 / (1 + np.exp(-rng.normal(-1, 1, len(user))))
    return user, truth, (rng.random(len(user)) < truth).astype(np.int8)


def noisy(rng, truth, spread):
    """Predictions whose log-odds are off by a normal error."""
    return 1 / (1 + np.exp(-np.log(truth / (1 - truth)) - rng.normal(0, spread, len(truth))))


def test_figures_and_checks_of_a_day_worked_out_by_hand():
    users, labels = [1, 1, 2, 2, 3], [1, 0, 0, 1, 0]
    challenger, champion = [0.8, 0.2, 0.6, 0.4, 0.5], [0.4, 0.2, 0.3, 0.9, 0.2]
    verdict = judge(users, labels, challenger, champion, GATE)
    assert verdict.challenger.gauc == pytest.approx(0.5)  # user 1 in order, user 2 not, user 3 has one class
    assert verdict.champion.gauc == pytest.approx(1.0)
    assert verdict.challenger.calibration == pytest.approx(0.5 / 0.4)
    assert verdict.challenger.users == 2
    assert verdict.challenger.user_coverage == pytest.approx(2 / 3)
    assert verdict.gain.difference == pytest.approx(-0.5)
    failed = {check.name for check in verdict.checks if not check.passed}
    assert failed == {"users with both classes", "log loss", "GAUC gain, lower end"}
    assert not verdict.promoted


def test_a_better_model_is_promoted_and_a_worse_one_refused():
    rng = np.random.default_rng(1)
    users, truth, labels = day(rng)
    good, bad = noisy(rng, truth, 0.3), noisy(rng, truth, 1.5)
    assert judge(users, labels, good, bad, GATE).promoted
    assert not judge(users, labels, bad, good, GATE).promoted


@pytest.mark.parametrize(("factor", "failed"), [(0.5, "calibration"), (1.6, "calibration"), (1.0, None)])
def test_a_model_that_ranks_better_but_is_not_calibrated_is_refused(factor, failed):
    rng = np.random.default_rng(2)
    users, truth, labels = day(rng)
    verdict = judge(users, labels, np.clip(truth * factor, 0, 1), noisy(rng, truth, 3.0), GATE)
    assert [check.name for check in verdict.checks if not check.passed] == ([failed] if failed else [])
    assert verdict.promoted == (failed is None)


def test_the_first_model_needs_no_champion_but_users_enough():
    rng = np.random.default_rng(3)
    users, truth, labels = day(rng)
    assert judge(users, labels, truth, None, GATE).promoted
    assert not judge(users[:16], labels[:16], truth[:16], None, GATE).promoted


def test_a_day_without_a_user_of_both_classes_promotes_nobody():
    verdict = judge([1, 1, 2, 2], [1, 1, 0, 0], [0.5] * 4, [0.4] * 4, GATE)
    assert not verdict.promoted
    assert verdict.gain is None
    assert verdict.as_dict()["challenger"]["gauc"] is None


def test_of_200_equal_pairs_on_resampled_days_no_more_than_the_level_are_promoted():
    """Both models err alike but independently, so neither is better; each pair sees the day's users drawn anew."""
    rng = np.random.default_rng(4)
    _, truth, _ = day(rng, users=400)
    promoted = 0
    for _ in range(200):
        drawn = rng.integers(400, size=400)
        rows = (drawn[:, None] * 8 + np.arange(8)).ravel()
        probability, own = truth[rows], np.repeat(np.arange(400), 8)
        clicked = (rng.random(len(rows)) < probability).astype(np.int8)
        pair = [noisy(rng, probability, 0.8) for _ in range(2)]
        promoted += judge(own, clicked, *pair, GATE).promoted
    assert promoted / 200 <= GATE.level
    assert promoted > 0  # a gate that never opens would pass too
