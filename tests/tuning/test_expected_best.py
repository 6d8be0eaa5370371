"""Expected best score of k trials: by hand, and against all subsets and sequences of trials."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from deep_interest.tuning.expected_best import expected_best, expected_best_table

SCORES = [0.61, 0.55, 0.7, 0.55, 0.68]


def test_two_trials_by_hand():
    without = expected_best([0.6, 0.8])
    assert without.mean == pytest.approx([0.7, 0.8])
    assert without.deviation == pytest.approx([0.1, 0.0])
    replaced = expected_best([0.6, 0.8], replacement=True)  # the better one is missed with probability 1/4
    assert replaced.mean == pytest.approx([0.7, 0.25 * 0.6 + 0.75 * 0.8])


def test_three_trials_by_hand():
    mean = expected_best([3.0, 1.0, 2.0]).mean  # pairs: 1 2, 1 3, 2 3
    assert mean == pytest.approx([2.0, (2 + 3 + 3) / 3, 3.0])
    replaced = expected_best(
        [3.0, 1.0, 2.0], replacement=True
    ).mean  # Dodge et al. 2019: (i/n)^k - ((i-1)/n)^k
    assert replaced[1] == pytest.approx((1 * 1 + 2 * 3 + 3 * 5) / 9)


@pytest.mark.parametrize("replacement", [False, True])
def test_the_closed_form_is_the_mean_over_all_draws(replacement):
    found = expected_best(SCORES, replacement=replacement)
    for k in range(1, len(SCORES) + 1):
        draws = product(SCORES, repeat=k) if replacement else combinations(SCORES, k)
        best = [max(draw) for draw in draws]
        assert found.mean[k - 1] == pytest.approx(np.mean(best))
        assert found.deviation[k - 1] == pytest.approx(np.std(best), abs=1e-9)


def test_the_order_of_the_scores_does_not_matter_and_the_curve_rises_to_the_best():
    mean = expected_best(SCORES).mean
    assert (mean == expected_best(sorted(SCORES)).mean).all()
    assert (np.diff(mean) > 0).all()
    assert mean[0] == pytest.approx(np.mean(SCORES))
    assert mean[-1] == pytest.approx(max(SCORES))


def test_many_trials_stay_exact():
    scores = np.random.default_rng(0).random(2000)
    mean, deviation = expected_best(scores)
    assert np.isfinite(mean).all()
    assert mean[[0, -1]] == pytest.approx([scores.mean(), scores.max()])
    assert deviation[-1] == pytest.approx(0.0, abs=1e-9)


def test_the_table_has_a_curve_per_model_and_a_trial_without_evaluation_counts_as_chance():
    trials = pd.DataFrame({"model": ["din", "din", "lr"], "validation_gauc": [0.7, np.nan, 0.6]})
    table = expected_best_table(trials).set_index(["model", "trials"])["expected"]
    assert table.to_dict() == pytest.approx({("din", 1): 0.6, ("din", 2): 0.7, ("lr", 1): 0.6})


def test_a_table_without_trials_is_empty():
    assert list(expected_best_table(pd.DataFrame(columns=["model", "validation_gauc"]))) == [
        "model", "trials", "expected", "deviation",
    ]  # fmt: skip
