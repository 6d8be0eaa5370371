import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

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


@pytest.mark.slow
def test_of_200_equal_pairs_on_resampled_days_no_more_than_the_level_are_promoted():
    """Both models err alike but independently, so neither is better; each pair sees another sample of the day's users."""
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


USERS, LABELS = [1, 1, 2, 2, 3, 4], [1, 0, 0, 1, 0, 1]
OURS, THEIRS = [0.8, 0.2, 0.7, 0.75, 0.5, 0.5], [0.4, 0.2, 0.3, 0.9, 0.2, 0.1]


def loss(labels, scores):
    return -np.mean([np.log(p if y else 1 - p) for y, p in zip(labels, scores, strict=True)])


def verdict_of(ours, theirs, *, popularity=None, labels=LABELS, users=USERS, **conditions):
    gate = GateParameters(**{"minimum_users": 2, "minimum_coverage": 0.5, "level": 0.1} | conditions)
    return judge(
        users,
        labels,
        ours,
        theirs,
        gate,
        popularity=np.full(len(users), 0.5) if popularity is None else popularity,
    )


def checks_of(verdict):
    return [(check.name, check.found, check.expected, check.passed) for check in verdict.checks]


def test_every_figure_and_check_of_a_challenger_by_hand():
    """Users 1 and 2 have both classes: in order by both models, so the gain is 0 without any variance."""
    verdict = verdict_of(OURS, THEIRS)
    ours, theirs = loss(LABELS, OURS), loss(LABELS, THEIRS)
    assert vars(verdict.challenger) == pytest.approx(
        {"gauc": 1.0, "auc": 7.5 / 9, "logloss": ours, "calibration": (3.45 / 6) / 0.5, "users": 2, "user_coverage": 0.5, "samples": 6}
    )  # fmt: skip
    assert vars(verdict.champion) == pytest.approx(
        {"gauc": 1.0, "auc": 6 / 9, "logloss": theirs, "calibration": (2.1 / 6) / 0.5, "users": 2, "user_coverage": 0.5, "samples": 6}
    )  # fmt: skip
    assert checks_of(verdict) == [
        ("users with both classes", 2, "at least 2", True),
        ("coverage", 0.5, "at least 0.5", True),
        ("calibration", pytest.approx(1.15), "0.7 to 1.4", True),
        ("log loss", pytest.approx(ours), f"at most {theirs * 1.02:.5f}", True),
        ("GAUC gain, lower end", 0.0, "above 0", False),
    ]
    assert not verdict.promoted
    assert verdict_of(OURS, THEIRS, minimum_gain=-0.001).promoted


def test_every_check_of_a_first_version_by_hand():
    """The user AUCs are 1 and 1 against .5 and .5 of popularity: 1 is above .5, and the gain .5 above 0, without any variance."""
    verdict = verdict_of(OURS, None)
    assert checks_of(verdict)[3:] == [
        ("GAUC, lower end", 1.0, "above 0.5", True),
        ("GAUC gain over popularity, lower end", 0.5, "above 0", True),
    ]
    assert verdict.promoted
    assert verdict.gain.difference == 0.5
    guessing = verdict_of([0.5] * 6, None, popularity=[0.9, 0.1, 0.1, 0.9, 0.5, 0.5])
    assert checks_of(guessing)[3:] == [
        ("GAUC, lower end", 0.5, "above 0.5", False),
        ("GAUC gain over popularity, lower end", -0.5, "above 0", False),
    ]


@pytest.mark.parametrize(
    ("condition", "at", "beyond", "failed"),
    [
        ("minimum_users", 2, 3, "users with both classes"),
        ("minimum_coverage", 0.5, 0.51, "coverage"),
        ("calibration", (1.0, 1.4), (1.01, 1.4), "calibration"),
        ("calibration", (0.7, 1.0), (0.7, 0.99), "calibration"),
    ],
)
def test_a_condition_is_met_at_its_bound_and_not_beyond(condition, at, beyond, failed):
    ours = [0.75, 0.25, 0.25, 0.75, 0.5, 0.5]  # mean predicted CTR .5, as observed
    for bound, expected in ((at, []), (beyond, [failed])):
        verdict = verdict_of(ours, THEIRS, minimum_gain=-0.1, **{condition: bound})
        assert [check.name for check in verdict.checks if not check.passed] == expected
        assert verdict.promoted == (not expected)


@pytest.mark.parametrize(("rise", "passed"), [(0.0, True), (0.5, True)])
def test_a_log_loss_as_high_as_the_champions_passes(rise, passed):
    verdict = verdict_of(OURS, OURS, logloss_rise=rise)
    (check,) = [check for check in verdict.checks if check.name == "log loss"]
    assert (check.passed, check.expected) == (passed, f"at most {loss(LABELS, OURS) * (1 + rise):.5f}")


def test_a_log_loss_above_the_allowed_rise_fails():
    worse = [0.8, 0.2, 0.2, 0.3, 0.8, 0.6]
    rise = loss(LABELS, worse) / loss(LABELS, OURS) - 1
    for allowed, passed in ((rise * 1.01, True), (rise * 0.99, False)):
        checks = {check.name: check.passed for check in verdict_of(worse, OURS, logloss_rise=allowed).checks}
        assert checks["log loss"] == passed


@pytest.mark.parametrize("level", [0.1, 0.4])
def test_the_lower_ends_are_those_of_intervals_of_the_level(level):
    """User AUCs .5 and 1 of the challenger, 0 and 1 of the other: differences .5 and 0 of two users of equal weight."""
    labels, users = [1, 0, 0, 1], [1, 1, 2, 2]
    ours, other = [0.5, 0.5, 0.4, 0.6], [0.4, 0.6, 0.4, 0.6]
    t = stats.t.ppf(1 - level / 2, 1)
    against = verdict_of(ours, other, labels=labels, users=users, level=level)
    assert against.gain.low == pytest.approx(0.25 - t * 0.25)
    assert against.checks[-1].found == pytest.approx(0.25 - t * 0.25)
    first = verdict_of(ours, None, popularity=other, labels=labels, users=users, level=level)
    assert [check.found for check in first.checks[3:]] == pytest.approx([0.75 - t * 0.25, 0.25 - t * 0.25])


@pytest.mark.parametrize(("users", "undefined"), [([1, 1, 2, 2], False), ([1, 1, 2, 3], True)])
def test_an_interval_takes_two_users_with_both_classes(users, undefined):
    labels, scores = [1, 0, 1, 0], [0.6, 0.4, 0.7, 0.3]
    for champion in (None, scores):
        verdict = verdict_of(scores, champion, users=users, labels=labels)
        assert (verdict.gain is None) == undefined
        assert [np.isnan(check.found) for check in verdict.checks if "lower end" in check.name] == (
            [undefined] * (2 if champion is None else 1)
        )
        assert not (undefined and any(check.passed for check in verdict.checks if "lower end" in check.name))


def test_a_day_without_a_click_has_no_calibration():
    verdict = verdict_of([0.1] * 6, [0.2] * 6, labels=[0] * 6)
    assert verdict.challenger.calibration == np.inf
    assert verdict.as_dict()["challenger"] == {
        "gauc": None, "auc": None, "logloss": pytest.approx(-np.log(0.9)), "calibration": None, "users": 0, "user_coverage": 0.0,
        "samples": 6,
    }  # fmt: skip


def test_a_verdict_is_written_as_plain_values():
    written = verdict_of(OURS, None).as_dict()
    assert set(written) == {
        "promoted",
        "checks",
        "challenger",
        "champion",
        "gain",
        "precision",
        "groups",
        "segments",
        "calibration",
        "delayed_clicks",
    }
    assert (written["promoted"], written["champion"]) == (True, None)
    assert written["gain"] == {"difference": 0.5, "low": 0.5, "high": 0.5, "p_value": 0.0}
    assert written["checks"][0] == {
        "name": "users with both classes",
        "found": 2,
        "expected": "at least 2",
        "passed": True,
    }
    assert json.loads(json.dumps(written)) == written
    assert {type(value) for value in written["challenger"].values()} == {int, float}
