"""Intervals by hand, against SciPy's t-test and by their nominal coverage; Holm by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.seed_variance import FIXED, SeedVariance
from deep_interest.evaluation.significance import chance_interval, difference_interval, holm, mean_over_seeds


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


def test_users_of_equal_weight_give_the_paired_t_test():
    rng = np.random.default_rng(5)
    ours, base = user_aucs(rng.random(40)), user_aucs(rng.random(40))
    interval = difference_interval(ours, base, confidence=0.9)
    reference = stats.ttest_rel(ours.auc, base.auc)
    low, high = reference.confidence_interval(0.9)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert interval.p_value == pytest.approx(reference.pvalue)


def test_weighted_users_by_hand():
    # Weights 1/4 and 3/4, differences +.4 and -.2: mean -.05, residuals .45 and -.15.
    # Variance (1/16 × .2025) / (3/4) + (9/16 × .0225) / (1/4) = .016875 + .050625 = .0675.
    # Degrees of freedom 1 / (1/16 + 9/16) - 1 = .6.
    ours, base = user_aucs([0.9, 0.3], [1, 3]), user_aucs([0.5, 0.5], [1, 3])
    interval = difference_interval(ours, base)
    half = stats.t.ppf(0.975, 0.6) * 0.0675**0.5
    assert interval.difference == pytest.approx(-0.05)
    assert (interval.low, interval.high) == pytest.approx((-0.05 - half, -0.05 + half))
    assert interval.p_value == pytest.approx(2 * stats.t.sf(0.05 / 0.0675**0.5, 0.6))


def test_seed_variances_by_hand():
    # Users: differences .1 and .3, variance of their mean .01, one degree of freedom. Interactions .004 and .002, averaged over
    # 2 and 4 fits .002 + .0005: the models' own effects are .0075. Totals .05 and .02 averaged: .025 + .005 = .03, for the
    # degrees of freedom divided as the interactions, .024 with one and .006 with three.
    ours, base = user_aucs([0.6, 0.8]), user_aucs([0.5, 0.5])
    seeds = [SeedVariance(2, total=0.05, interaction=0.004), SeedVariance(4, total=0.02, interaction=0.002)]
    interval = difference_interval(ours, base, seeds=seeds)
    df = 0.0375**2 / (0.01**2 / 1 + 0.024**2 / 1 + 0.006**2 / 3)
    half = stats.t.ppf(0.975, df) * 0.0375**0.5
    assert (interval.low, interval.high) == pytest.approx((0.2 - half, 0.2 + half))


def test_a_total_below_the_interaction_does_not_raise_the_degrees_of_freedom():
    # Own effects .01 - .004 / 2 = .008, total .001 / 2; the degrees of freedom expect at least the interaction, .002.
    ours, base = user_aucs([0.6, 0.8]), user_aucs([0.5, 0.5])
    interval = difference_interval(ours, base, seeds=[SeedVariance(2, 0.001, 0.004), FIXED])
    half = stats.t.ppf(0.975, 0.01**2 / (0.01**2 + 0.002**2)) * 0.0085**0.5
    assert (interval.low, interval.high) == pytest.approx((0.2 - half, 0.2 + half))


@pytest.mark.parametrize(("interaction", "own"), [(0.0142, 0.01 - 0.0071), (0.0144, 0)])
def test_effects_of_the_models_count_from_1_4_times_the_interaction(interaction, own):
    # The variance over users is .01, 1.408 and 1.389 times the interaction averaged over two fits.
    ours, base = user_aucs([0.6, 0.8]), user_aucs([0.5, 0.5])
    interval = difference_interval(ours, base, seeds=[SeedVariance(2, 0.03, interaction), FIXED])
    df = (own + 0.015) ** 2 / (0.015**2 + (0.01**2 if own else 0))
    half = stats.t.ppf(0.975, df) * (own + 0.015) ** 0.5
    assert interval.high == pytest.approx(0.2 + half)


def test_a_seed_that_moves_all_users_alike_has_its_total_alone():
    ours, base = user_aucs([0.6, 0.8]), user_aucs([0.5, 0.5])
    interval = difference_interval(ours, base, seeds=[SeedVariance(3, 0.06, 0.0), FIXED])
    half = stats.t.ppf(0.975, 0.03**2 / (0.01**2 + 0.02**2 / 2)) * 0.03**0.5
    assert interval.high == pytest.approx(0.2 + half)


def test_a_gauc_is_compared_with_chance():
    interval = chance_interval(user_aucs([0.6, 0.8]))
    half = stats.t.ppf(0.975, 1) * 0.1
    assert interval.difference == pytest.approx(0.2)
    assert (interval.low, interval.high) == pytest.approx((0.2 - half, 0.2 + half))


def test_the_difference_is_that_of_the_two_gaucs():
    ours, base = random_pair(np.random.default_rng(6), 30, gain=0.1)
    assert difference_interval(ours, base).difference == pytest.approx(ours.gauc().value - base.gauc().value)


@pytest.mark.parametrize("users", [30, 150])
def test_a_nominal_95_percent_interval_covers_the_true_difference_about_95_times_in_100(users):
    # True difference: gain × (weight of users with more than 10 impressions) over all weights, n uniform on 2 … 19.
    n = np.arange(2, 20)
    truth = 0.05 * n[n > 10].sum() / n.sum()
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(2000):
        interval = difference_interval(*random_pair(rng, users, gain=0.05))
        covered += interval.low <= truth <= interval.high
    assert 0.94 <= covered / 2000 <= 0.965  # binomial deviation is .005


def test_equal_models_give_an_interval_of_zero_and_p_one():
    _, base = random_pair(np.random.default_rng(8), 20, gain=0)
    interval = difference_interval(base, base)
    assert (interval.difference, interval.low, interval.high, interval.p_value) == (0, 0, 0, 1)


def test_swapping_the_models_mirrors_the_interval():
    ours, base = random_pair(np.random.default_rng(10), 50, gain=0.03)
    there, back = difference_interval(ours, base), difference_interval(base, ours)
    assert (back.difference, back.low, back.high) == pytest.approx(
        (-there.difference, -there.high, -there.low)
    )
    assert back.p_value == pytest.approx(there.p_value)


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
        difference_interval(user_aucs([0.5, 0.5]), other)
    with pytest.raises(InputError, match="scored on different test rows"):
        mean_over_seeds([user_aucs([0.5, 0.5]), other])


@pytest.mark.parametrize("users", [0, 1])
def test_fewer_than_two_users_are_refused(users):
    with pytest.raises(InputError, match=f"users: found {users} with both classes, expected at least 2"):
        difference_interval(user_aucs([0.5] * users), user_aucs([0.5] * users))


@pytest.mark.parametrize("confidence", [95, 0])
def test_a_confidence_out_of_range_is_refused(confidence):
    with pytest.raises(InputError, match=f"confidence: found {confidence}"):
        difference_interval(user_aucs([0.5, 0.6]), user_aucs([0.5, 0.5]), confidence=confidence)


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


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_an_interval_against_chance_takes_seeds_and_confidence(confidence):
    # Users .1 and .3 above chance, variance of their mean .01, of which the interaction of two fits is .005; the fits' own .025.
    seeds = [SeedVariance(seeds=2, total=0.05, interaction=0.01)]
    interval = chance_interval(user_aucs([0.6, 0.8]), seeds=seeds, confidence=confidence)
    df = 0.03**2 / (0.025**2 / 1 + 0.01**2 / 1)
    half = stats.t.ppf((1 + confidence) / 2, df) * 0.03**0.5
    assert (interval.low, interval.high) == pytest.approx((0.2 - half, 0.2 + half))
    assert interval.p_value == pytest.approx(2 * stats.t.sf(0.2 / 0.03**0.5, df))


@pytest.mark.parametrize(
    ("seeds", "variance", "parts", "of_models"),
    [
        # The users' variance .01 is less than 1.4 times the interaction .015: only the fits vary, in proportion to it.
        ([(2, 0.05, 0.01), (4, 0.08, 0.04)], 0.045, [(0.015, 1), (0.03, 3)], 0),
        # No interaction: the fits' own variances, and all of the users'.
        ([(2, 0.05, 0), (3, 0.06, 0)], 0.055, [(0.025, 1), (0.02, 2)], 0.01),
        # GAUCs that are alike by chance: their degrees of freedom are those of the interactions.
        ([(2, 0.001, 0.01)], 0.0055, [(0.005, 1)], 0.005),
        # A model without randomness adds nothing.
        ([(2, 0.05, 0.01), (1, 0, 0)], 0.03, [(0.025, 1)], 0.005),
    ],
)
def test_the_variance_and_degrees_of_freedom_of_two_models_by_hand(seeds, variance, parts, of_models):
    ours, base = user_aucs([0.6, 0.8]), user_aucs([0.5, 0.5])
    interval = difference_interval(ours, base, seeds=[SeedVariance(*one) for one in seeds])
    uncertainty = sum(part**2 / df for part, df in parts) + (0.01**2 if of_models else 0)
    df = (of_models + sum(part for part, _ in parts)) ** 2 / uncertainty
    half = stats.t.ppf(0.975, df) * variance**0.5
    assert (interval.low, interval.high) == pytest.approx((0.2 - half, 0.2 + half))


def test_a_difference_without_any_variance_is_certain():
    interval = difference_interval(user_aucs([0.75, 0.75]), user_aucs([0.5, 0.5]))
    assert (interval.difference, interval.low, interval.high, interval.p_value) == (0.25, 0.25, 0.25, 0)


def test_p_values_may_be_zero_and_one():
    assert holm([0.0, 1.0]).tolist() == [0, 1]
    for outside in (-0.01, 1.01):
        with pytest.raises(InputError, match="expected values from 0 to 1"):
            holm([0.5, outside])
