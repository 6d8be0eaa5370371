"""Variances over seeds: by hand, by an analysis of variance, and the level of intervals in A/A tests."""

import numpy as np
import pytest
from scipy import stats

from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.seed_variance import FIXED, variance_over_seeds
from deep_interest.evaluation.significance import difference_interval, mean_over_seeds


def fits(*aucs, impressions=None):
    users = np.arange(len(aucs[0]))
    n = np.full(len(users), 2) if impressions is None else np.asarray(impressions)
    return [UserAUC(users, n, np.asarray(auc, np.float64), len(users), int(n.sum())) for auc in aucs]


def test_a_seed_that_moves_all_users_alike_has_no_interaction():
    variance = variance_over_seeds(fits([0.5, 0.7], [0.6, 0.8]))
    assert variance.total == pytest.approx(0.1**2 / 2)
    assert variance.interaction == pytest.approx(0, abs=1e-30)


def test_a_seed_that_moves_users_against_each_other_is_interaction_alone():
    # GAUC .6 twice. Residuals after the users' means ± .1 in each of two fits: Σ over fits .02 for each user, one degree of
    # freedom; weights 1/2: Σ 1/4 × .02 / (1/2) = .02.
    variance = variance_over_seeds(fits([0.5, 0.7], [0.7, 0.5]))
    assert variance.total == pytest.approx(0, abs=1e-30)
    assert variance.interaction == pytest.approx(0.02)


def test_users_weigh_by_their_impressions():
    # Weights 1/4 and 3/4; GAUC .5 and .6 (only the second user moves, by .4/3).
    variance = variance_over_seeds(fits([0.5, 0.5], [0.5, 0.5 + 0.4 / 3], impressions=[1, 3]))
    assert variance.total == pytest.approx(0.1**2 / 2)


def test_one_fit_has_no_variance_over_seeds():
    assert variance_over_seeds(fits([0.5, 0.7])) == FIXED


def test_without_main_effects_the_interaction_is_as_large_as_the_variance_of_the_gauc():
    rng = np.random.default_rng(0)
    n = rng.integers(2, 30, 300)
    variance = variance_over_seeds(fits(*(0.6 + rng.normal(0, 0.1, (4000, 300))), impressions=n))
    assert variance.total / variance.interaction == pytest.approx(1, abs=0.1)  # deviation .022


def test_the_ratio_is_the_f_statistic_of_a_two_way_analysis_of_variance():
    """Mean squares from two least-squares fits, without and with the effects of seeds."""
    rng = np.random.default_rng(3)
    aucs = rng.random((4, 12))
    seed, user = np.indices(aucs.shape).reshape(2, -1)
    of_users = (user[:, None] == np.arange(12)).astype(float)
    of_both = np.hstack([of_users, (seed[:, None] == np.arange(1, 4)).astype(float)])
    without, full = (np.linalg.lstsq(x, aucs.ravel(), rcond=None)[1][0] for x in (of_users, of_both))
    variance = variance_over_seeds(fits(*aucs))
    assert variance.interaction == pytest.approx(full / (3 * 11) / 12)
    assert variance.total / variance.interaction == pytest.approx(((without - full) / 3) / (full / (3 * 11)))


def test_fits_that_move_all_users_alike_give_students_t_test_of_the_gaucs():
    rng = np.random.default_rng(4)
    aucs = 0.5 + 0.1 * rng.random((5, 60))
    aucs -= aucs.mean(axis=1, keepdims=True)
    ours, base = 0.6 + 0.01 * rng.standard_normal((2, 5))  # GAUCs of the fits; the interactions are the same
    groups = [fits(*(aucs + gaucs[:, None])) for gaucs in (ours, base)]
    interval = interval_of(*groups)
    reference = stats.ttest_ind(ours, base)
    low, high = reference.confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert interval.p_value == pytest.approx(reference.pvalue)


def interval_of(ours, base):
    seeds = [variance_over_seeds(ours), variance_over_seeds(base)]
    return difference_interval(mean_over_seeds(ours), mean_over_seeds(base), seeds=seeds)


def intervals_without_a_difference(seeds, ratio, effects, *, count=3000, users=100):
    """Intervals of pairs of equal GAUC; the GAUC of a fit has variance 0.01².

    Args:
        seeds: fits of each model.
        ratio: variance over seeds of the GAUC, over its part from the interaction.
        effects: variance of the difference by the models' own effects on users, over that by the seeds.
    """
    rng = np.random.default_rng([seeds, ratio])
    interaction = (0.01**2 / ratio * users) ** 0.5
    own = (effects * 2 * 0.01**2 / seeds * users) ** 0.5
    for _ in range(count):
        groups = interaction * rng.standard_normal((2, seeds, users))
        groups += 0.01 * (1 - 1 / ratio) ** 0.5 * rng.standard_normal((2, seeds, 1))
        groups[0] += own * rng.standard_normal(users)
        yield interval_of(*(fits(*group) for group in groups))


def level(intervals):
    return np.mean([interval.low > 0 or interval.high < 0 for interval in intervals])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "ratio", "effects"), [(2, 1, 0), (2, 2, 0), (5, 1, 0), (5, 2, 0), (5, 1, 1), (5, 2, 1)]
)
def test_intervals_exclude_0_in_5_percent_of_the_cases_without_a_difference(seeds, ratio, effects):
    """Within 1.5 percent; the binomial deviation is 0.4 percent."""
    assert level(intervals_without_a_difference(seeds, ratio, effects)) == pytest.approx(0.05, abs=0.015)


@pytest.mark.slow
def test_two_seeds_and_effects_on_users_exclude_0_less_often():
    assert 0.02 < level(intervals_without_a_difference(2, 1, 1)) < 0.05


@pytest.mark.slow
def test_five_seeds_find_a_difference_of_two_standard_errors_nearly_as_often_as_a_known_variance():
    """A test with a known variance finds it in 52 percent of the cases, Student's t with 8 degrees of freedom in 41."""
    shift = 2 * 0.01 * (2 / 5) ** 0.5
    found = [one.low + shift > 0 or one.high + shift < 0 for one in intervals_without_a_difference(5, 2, 0)]
    assert 0.37 < np.mean(found) < 0.45


def test_weights_of_users_enter_the_interaction():
    """Weights 1/4 and 3/4, users' AUCs moved by .2 and -.2: GAUC by -.1; residuals of two fits ± .15 and ∓ .05."""
    variance = variance_over_seeds(fits([0.5, 0.7], [0.7, 0.5], impressions=[1, 3]))
    squares = 2 * 0.15**2, 2 * 0.05**2
    expected = (1 / 16 * squares[0]) / (3 / 4) + (9 / 16 * squares[1]) / (1 / 4)
    assert variance.interaction == pytest.approx(expected)
    assert variance.seeds == 2


def test_three_fits_divide_by_two_degrees_of_freedom():
    """Residuals after user and fit means, users of equal weight: -.1, 0, .1 of the first, the reverse of the second."""
    variance = variance_over_seeds(fits([0.4, 0.6], [0.5, 0.5], [0.6, 0.4]))
    assert variance.interaction == pytest.approx(2 * (1 / 4 * (0.02 / 2)) / (1 / 2))
    assert variance.total == pytest.approx(0, abs=1e-30)
