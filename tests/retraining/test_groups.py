"""Groups of held-out impressions by length of the history."""

import numpy as np
import pytest

from deep_interest.evaluation import chance_interval
from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.retraining.groups import by_history_length


def test_impressions_are_grouped_by_the_length_of_their_history():
    lengths = [0, 1, 4, 5, 19, 20, 99, 100, 5000]
    groups = by_history_length(range(9), [1] * 9, [0.5] * 9, lengths)
    assert [(of.name, of.samples) for of in groups] == [
        ("no behaviour", 1), ("1 to 4 behaviours", 2), ("5 to 19 behaviours", 2), ("20 to 99 behaviours", 2),
        ("100 or more behaviours", 2),
    ]  # fmt: skip
    assert by_history_length([1], [0], [0.5], [7])[0].name == "5 to 19 behaviours"


def test_metrics_of_a_group_are_those_of_its_impressions():
    rng = np.random.default_rng(0)
    users, labels = np.repeat(np.arange(40), 6), np.tile([0, 0, 1], 80)
    lengths, scores = np.where(users < 30, 7, 50), rng.random(240)
    few, many = by_history_length(users, labels, scores, lengths)
    chosen = users < 30
    by_user = per_user_auc(users[chosen], labels[chosen], scores[chosen])
    interval = chance_interval(by_user)
    assert (few.samples, few.users, many.users) == (180, 30, 10)
    assert few.gauc == pytest.approx(by_user.gauc().value)
    assert (few.low, few.high) == (pytest.approx(0.5 + interval.low), pytest.approx(0.5 + interval.high))
    assert few.calibration == pytest.approx(3 * scores[chosen].mean())  # a third is clicked


def test_nine_users_have_no_gauc_and_no_click_no_calibration():
    users, labels = np.repeat(np.arange(9), 2), np.tile([0, 1], 9)
    (group,) = by_history_length(users, labels, np.linspace(0, 1, 18), np.zeros(18))
    assert group.users == 9 and np.isnan([group.gauc, group.low, group.high]).all()
    (silent,) = by_history_length([1, 2], [0, 0], [0.1, 0.2], [0, 0])
    assert np.isnan(silent.calibration)
