import numpy as np
import pandas as pd
import pytest

from deep_interest.retraining.baseline import popularity_scores
from deep_interest.retraining.gate import judge
from deep_interest.retraining.parameters import GateParameters

GATE = GateParameters()


def judged(users, labels, challenger, champion, *, popularity=None):
    """A verdict; popularity knows nothing unless it is given."""
    popularity = np.full(len(users), 0.5) if popularity is None else popularity
    return judge(users, labels, challenger, champion, GATE, popularity=popularity)


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
    verdict = judged(users, labels, challenger, champion)
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
    assert judged(users, labels, good, bad).promoted
    assert not judged(users, labels, bad, good).promoted


@pytest.mark.parametrize(("factor", "failed"), [(0.5, "calibration"), (1.6, "calibration"), (1.0, None)])
def test_a_model_that_ranks_better_but_is_not_calibrated_is_refused(factor, failed):
    rng = np.random.default_rng(2)
    users, truth, labels = day(rng)
    verdict = judged(users, labels, np.clip(truth * factor, 0, 1), noisy(rng, truth, 3.0))
    assert [check.name for check in verdict.checks if not check.passed] == ([failed] if failed else [])
    assert verdict.promoted == (failed is None)


def test_the_first_model_needs_no_champion_but_users_enough():
    rng = np.random.default_rng(3)
    users, truth, labels = day(rng)
    verdict = judged(users, labels, truth, None)
    assert verdict.promoted
    assert verdict.champion is None
    few = users < 100  # with both classes: fewer than 100
    assert not judged(users[few], labels[few], truth[few], None).promoted


def shift_to_rate(scores, rate):
    """The scores with the mean ``rate``: perfectly calibrated on average."""
    return scores * rate / scores.mean()


@pytest.mark.parametrize("kind", ["constant", "random", "reversed"])
def test_a_first_version_without_signal_is_refused_however_well_calibrated(kind):
    rng = np.random.default_rng(5)
    users, truth, labels = day(rng)
    scores = {"constant": np.ones(len(users)), "random": rng.random(len(users)), "reversed": 1 - truth}[kind]
    verdict = judged(users, labels, shift_to_rate(scores, labels.mean()), None)
    assert verdict.challenger.calibration == pytest.approx(1)
    assert not verdict.promoted
    assert "GAUC, lower end" in {check.name for check in verdict.checks if not check.passed}


def test_a_first_version_no_better_than_popularity_is_refused():
    rng = np.random.default_rng(6)
    users, truth, labels = day(rng)
    popularity = noisy(rng, truth, 0.5)
    alike = judged(users, labels, noisy(rng, truth, 0.5), None, popularity=popularity)
    failed = [check.name for check in alike.checks if not check.passed]
    assert failed == ["GAUC gain over popularity, lower end"]
    assert alike.gain.low < 0
    better = judged(users, labels, truth, None, popularity=noisy(rng, truth, 2.0))
    assert better.promoted


def test_popularity_is_the_smoothed_rate_of_the_training_days():
    train = pd.DataFrame({"item": ["a"] * 20 + ["b"] * 60, "label": [1] * 12 + [0] * 8 + [1] * 8 + [0] * 52})
    held_out = pd.DataFrame({"item": ["b", "new", "a"], "label": [1, 1, 1]})
    # Overall rate 20 / 80; a: (12 + 20 / 4) / 40, b: (8 + 20 / 4) / 80.
    assert popularity_scores(train, held_out).tolist() == pytest.approx([13 / 80, 0.25, 17 / 40])


def test_a_day_without_a_user_of_both_classes_promotes_nobody():
    verdict = judged([1, 1, 2, 2], [1, 1, 0, 0], [0.5] * 4, [0.4] * 4)
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
        promoted += judged(own, clicked, *pair).promoted
    assert promoted / 200 <= GATE.level
    assert promoted > 0  # a gate that never opens would pass too
