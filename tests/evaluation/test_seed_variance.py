"""Variances over seeds by hand, and how far they are moderated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.seed_variance import FIXED, SeedSpread, moderated, seed_spread


def fits(*aucs, impressions=None):
    users = np.arange(len(aucs[0]))
    n = np.full(len(users), 2) if impressions is None else np.asarray(impressions)
    return [UserAUC(users, n, np.asarray(auc, np.float64), len(users), int(n.sum())) for auc in aucs]


def test_a_seed_that_moves_all_users_alike_has_no_interaction():
    spread = seed_spread(fits([0.5, 0.7], [0.6, 0.8]))
    assert spread.variance == pytest.approx(0.1**2 / 2)
    assert spread.interaction == pytest.approx(0, abs=1e-30)


def test_a_seed_that_moves_users_against_each_other_is_interaction_alone():
    # GAUC .6 twice. Residuals after the users' means ± .1 in each of two fits: Σ over fits .02 for each user, one degree of
    # freedom; weights 1/2: Σ 1/4 × .02 / (1/2) = .02.
    spread = seed_spread(fits([0.5, 0.7], [0.7, 0.5]))
    assert spread.variance == pytest.approx(0, abs=1e-30)
    assert spread.interaction == pytest.approx(0.02)


def test_users_weigh_by_their_impressions():
    # Weights 1/4 and 3/4; GAUC .5 and .6 (only the second user moves, by .4/3).
    spread = seed_spread(fits([0.5, 0.5], [0.5, 0.5 + 0.4 / 3], impressions=[1, 3]))
    assert spread.variance == pytest.approx(0.1**2 / 2)


def test_one_fit_has_no_spread():
    assert seed_spread(fits([0.5, 0.7])) == SeedSpread(1, 0.0, 0.0)


def test_without_main_effects_the_interaction_is_as_large_as_the_variance_of_the_gauc():
    rng = np.random.default_rng(0)
    n = rng.integers(2, 30, 300)
    spread = seed_spread(fits(*(0.6 + rng.normal(0, 0.1, (4000, 300))), impressions=n))
    assert spread.variance / spread.interaction == pytest.approx(1, abs=0.1)  # deviation .022


def test_the_ratios_of_two_models_are_pooled_by_their_degrees_of_freedom():
    # Ratios 4 with one and 10 with four degrees of freedom: (4 + 40) / 5 = 8.8.
    two = moderated([SeedSpread(2, 4.0, 1.0), SeedSpread(5, 20.0, 2.0)])
    assert [model.total for model in two] == pytest.approx([8.8, 17.6])
    assert [model.shared_df for model in two] == [5, 5]


def test_a_ratio_is_at_least_one():
    (only,) = moderated([SeedSpread(3, 0.1, 1.0)])
    assert only.total == 1.0


def test_equal_ratios_are_shrunk_and_far_ones_keep_their_own():
    rng = np.random.default_rng(1)
    df = 4
    alike = [SeedSpread(df + 1, 5 * rng.chisquare(df) / df, 1.0) for _ in range(40)]
    shrunk = moderated(alike)
    assert np.std([model.total for model in shrunk]) < 0.25 * np.std([spread.variance for spread in alike])
    assert np.mean([model.total for model in shrunk]) == pytest.approx(5, rel=0.2)
    far = moderated([*alike[:20], *(SeedSpread(5, 500 * s.variance, 1.0) for s in alike[20:])])
    assert shrunk[0].df > 5 * far[0].df
    assert np.mean([model.total for model in far[20:]]) > 50 * np.mean([model.total for model in far[:20]])


def test_a_model_whose_fits_are_equal_has_no_seed_variance():
    equal, other = moderated([SeedSpread(5, 0.0, 0.0), SeedSpread(5, 2.0, 1.0)])
    assert (equal.total, equal.interaction) == (FIXED.total, FIXED.interaction)
    assert other.total == 2.0


def reference_prior(ratios, df):
    """The grid search by SciPy's own densities: of the priors within .5 of the best log-likelihood the smallest."""
    grid = np.geomspace(0.5, 2000, 250)
    priors = [1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, np.inf]
    profiles, best = [], []
    for prior in priors:
        scores = [
            sum(
                np.log(ratio / common)  # density of the logarithm
                + (
                    stats.chi2.logpdf(ratio / common * d, d) + np.log(d)
                    if np.isinf(prior)
                    else stats.f.logpdf(ratio / common, d, prior)
                )
                for ratio, d in zip(ratios, df, strict=True)
            )
            for common in grid
        ]
        profiles.append(max(scores))
        best.append(grid[int(np.argmax(scores))])
    chosen = next(k for k, value in enumerate(profiles) if value >= max(profiles) - 0.5)
    return priors[chosen], best[chosen]


@pytest.mark.parametrize(
    ("ratios", "df"),
    [
        ([2.0, 2.5, 3.0], [1, 1, 1]),
        ([0.5, 40.0, 900.0], [4, 4, 4]),
        ([1.0, 1.1, 0.9, 1.05, 1.2, 0.95], [9, 9, 9, 9, 9, 9]),
        ([0.8, 3.0, 7.0, 20.0], [1, 2, 4, 9]),
        ([5.0, 6.0, 60.0], [19, 29, 39]),
    ],
)
def test_the_table_of_moderated_variances_by_scipys_densities(ratios, df):
    prior, common = reference_prior(ratios, df)
    spreads = [SeedSpread(d + 1, ratio * 2.0, 2.0) for ratio, d in zip(ratios, df, strict=True)]
    for result, ratio, d in zip(moderated(spreads), ratios, df, strict=True):
        share = 1.0 if np.isinf(prior) else prior / (prior + d)
        expected = max(1.0, share * common + (1 - share) * ratio) * 2.0
        assert (result.seeds, result.interaction, result.df, result.shared_df) == (
            d + 1,
            2.0,
            prior + d,
            sum(df),
        )
        assert result.total == pytest.approx(expected)


def test_weights_of_users_enter_the_interaction():
    """Weights 1/4 and 3/4, users' AUCs moved by .2 and -.2: GAUC by -.1; residuals of two fits ± .15 and ∓ .05."""
    spread = seed_spread(fits([0.5, 0.7], [0.7, 0.5], impressions=[1, 3]))
    squares = 2 * 0.15**2, 2 * 0.05**2
    assert spread.interaction == pytest.approx(
        (1 / 16 * squares[0]) / (3 / 4) + (9 / 16 * squares[1]) / (1 / 4)
    )
    assert (spread.seeds, spread.df) == (2, 1)


def test_three_fits_divide_by_two_degrees_of_freedom():
    """Residuals after user and fit means, users of equal weight: -.1, 0, .1 of the first, the reverse of the second."""
    spread = seed_spread(fits([0.4, 0.6], [0.5, 0.5], [0.6, 0.4]))
    assert spread.interaction == pytest.approx(2 * (1 / 4 * (0.02 / 2)) / (1 / 2))
    assert spread.variance == pytest.approx(0, abs=1e-30)


def test_without_any_known_ratio_every_model_is_fixed_and_keeps_its_seeds():
    assert moderated([SeedSpread(1, 0.0, 0.0), SeedSpread(4, 0.0, 0.0)]) == [
        replace(FIXED, seeds=1), replace(FIXED, seeds=4),
    ]  # fmt: skip
    first, _ = moderated([SeedSpread(3, 0.0, 0.0), SeedSpread(2, 4.0, 1.0)])
    assert first == replace(FIXED, seeds=3)
