"""The paired bootstrap against an enumeration, a slow reference and its nominal coverage; Holm by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.significance import holm, mean_over_seeds, paired_bootstrap, paired_bootstraps


def user_aucs(auc, impressions=None, first_user=0):
    auc = np.asarray(auc, dtype=np.float64)
    impressions = np.full(len(auc), 2) if impressions is None else np.asarray(impressions)
    users = np.arange(first_user, first_user + len(auc))
    return UserAUC(users, impressions, auc, total_users=len(auc), total_impressions=int(impressions.sum()))


def random_pair(rng, users, *, gain):
    """Per-user AUCs of two models; the difference and the weight of a user are correlated."""
    impressions = rng.integers(2, 20, users)
    base = rng.uniform(0.3, 0.7, users)
    difference = gain * (impressions > 10) + rng.normal(0, 0.1, users)
    return user_aucs(base + difference, impressions), user_aucs(base, impressions)


def test_every_resample_of_two_users_is_one_of_the_three_possible_differences():
    # Users weigh 1 and 3 with differences +.4 and -.2: drawn (1,1): .4, (2,2): -.2, one of each: (.4 - .6) / 4.
    ours, base = user_aucs([0.9, 0.3], [1, 3]), user_aucs([0.5, 0.5], [1, 3])
    interval = paired_bootstrap(ours, base, resamples=4000, confidence=0.6, seed=0)
    # Probabilities 1/4 for -.2, 1/2 for -.05, 1/4 for .4: the 20 % and 80 % quantiles are the two ends.
    assert interval.difference == pytest.approx(-0.05)
    assert (interval.low, interval.high) == pytest.approx((-0.2, 0.4))
    # One quarter of the resamples is above 0, three quarters below: two-sided 2 × 1/4.
    assert interval.p_value == pytest.approx(0.5, abs=0.03)


def test_the_interval_equals_a_slow_bootstrap_over_the_same_draws():
    rng = np.random.default_rng(5)
    ours, base = random_pair(rng, 40, gain=0.05)
    interval = paired_bootstrap(ours, base, resamples=300, confidence=0.9, seed=11)

    draws, differences = np.random.default_rng(11), []
    for _ in range(300):
        chosen = draws.integers(40, size=40).tolist()
        weight = sum(int(ours.impressions[u]) for u in chosen)
        gauc_ours = sum(ours.impressions[u] * ours.auc[u] for u in chosen) / weight
        gauc_base = sum(base.impressions[u] * base.auc[u] for u in chosen) / weight
        differences.append(gauc_ours - gauc_base)
    assert (interval.low, interval.high) == pytest.approx(
        (np.quantile(differences, 0.05), np.quantile(differences, 0.95))
    )
    one_sided = min(sum(d <= 0 for d in differences), sum(d >= 0 for d in differences))
    assert interval.p_value == pytest.approx(2 * (one_sided + 1) / 301)


def test_the_difference_is_that_of_the_two_gaucs():
    ours, base = random_pair(np.random.default_rng(6), 30, gain=0.1)
    interval = paired_bootstrap(ours, base, resamples=10, seed=0)
    assert interval.difference == pytest.approx(ours.gauc().value - base.gauc().value)


def test_a_nominal_95_percent_interval_covers_the_true_difference_about_95_times_in_100():
    # True difference: gain × (weight of users with more than 10 impressions) over all weights, n uniform on 2 … 19.
    n = np.arange(2, 20)
    truth = 0.05 * n[n > 10].sum() / n.sum()
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        interval = paired_bootstrap(*random_pair(rng, 150, gain=0.05), resamples=400, seed=3)
        covered += interval.low <= truth <= interval.high
    assert 0.90 <= covered / 200 <= 0.99  # binomial deviation is .015


def test_equal_models_give_an_interval_of_zero_and_p_one():
    _, base = random_pair(np.random.default_rng(8), 20, gain=0)
    interval = paired_bootstrap(base, base, resamples=50, seed=0)
    assert (interval.difference, interval.low, interval.high, interval.p_value) == (0, 0, 0, 1)


def test_models_without_a_true_difference_are_rarely_told_apart():
    rng = np.random.default_rng(9)
    p_values = [
        paired_bootstrap(*random_pair(rng, 100, gain=0), resamples=200, seed=1).p_value for _ in range(100)
    ]
    assert np.mean(np.array(p_values) < 0.05) < 0.12  # 5 % expected, binomial deviation .022


def test_swapping_the_models_mirrors_the_interval():
    ours, base = random_pair(np.random.default_rng(10), 50, gain=0.03)
    there = paired_bootstrap(ours, base, resamples=200, seed=4)
    back = paired_bootstrap(base, ours, resamples=200, seed=4)
    assert (back.difference, back.low, back.high) == pytest.approx(
        (-there.difference, -there.high, -there.low)
    )
    assert back.p_value == there.p_value


def test_several_models_share_the_draws_of_one():
    rng = np.random.default_rng(12)
    base = user_aucs(rng.random(25))
    rows = [user_aucs(rng.random(25)) for _ in range(3)]
    together = paired_bootstraps(rows, base, resamples=100, seed=2)
    for row, interval in zip(rows, together, strict=True):
        alone = paired_bootstrap(row, base, resamples=100, seed=2)
        assert (interval.low, interval.high) == pytest.approx((alone.low, alone.high))


def test_one_seed_repeats_the_interval_and_another_changes_it():
    ours, base = random_pair(np.random.default_rng(13), 50, gain=0.03)
    first, again, other = (paired_bootstrap(ours, base, resamples=100, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_mean_over_seeds_averages_each_users_auc():
    mean = mean_over_seeds([user_aucs([0.2, 1.0]), user_aucs([0.6, 0.5])])
    assert mean.auc.tolist() == pytest.approx([0.4, 0.75])
    assert mean.impressions.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (user_aucs([0.5, 0.5], first_user=1), "scored on different test rows"),
        (user_aucs([0.5, 0.5], [2, 3]), "scored on different test rows"),
        (user_aucs([0.5]), r"\(2 and 1 users"),
    ],
)
def test_models_scored_on_different_rows_are_refused(other, message):
    with pytest.raises(InputError, match=message):
        paired_bootstrap(user_aucs([0.5, 0.5]), other, seed=0)
    with pytest.raises(InputError, match="scored on different test rows"):
        mean_over_seeds([user_aucs([0.5, 0.5]), other])


def test_a_comparison_without_users_is_refused():
    with pytest.raises(InputError, match="no user has both classes"):
        paired_bootstrap(user_aucs([]), user_aucs([]), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 0}, "resamples: found 0"),
        ({"confidence": 95}, "confidence: found 95"),
        ({"confidence": 0}, "0"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        paired_bootstrap(user_aucs([0.5]), user_aucs([0.5]), seed=0, **options)


def test_holm_multiplies_by_the_comparisons_left_and_never_decreases():
    # Sorted .01 × 4, .02 × 3, .03 × 2 (= .06, as before), .9 × 1.
    assert holm([0.03, 0.01, 0.9, 0.02]).tolist() == pytest.approx([0.06, 0.04, 0.9, 0.06])
    # .4 × 3 is above one; the later ones stay there.
    assert holm([0.4, 0.5, 0.6]).tolist() == [1, 1, 1]
    assert holm([]).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_no_correction_and_bonferroni(p_values):
    adjusted = holm(p_values)
    assert (adjusted >= np.array(p_values)).all()
    assert (adjusted <= np.minimum(1, np.array(p_values) * len(p_values)) + 1e-12).all()


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(InputError, match="p_values"):
        holm([0.1, np.nan])
