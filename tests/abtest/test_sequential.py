"""Always-valid intervals, sample ratio and duration: values by hand."""

import numpy as np
import pytest
from scipy import stats

from deep_interest.abtest import (
    LogDifference,
    VarianceCurve,
    always_valid,
    always_valid_p,
    boundaries,
    days_until,
    detectable_lift,
    fit_variance_curve,
    sample_ratio,
    spent_error,
    valid_on_planned_days,
)
from deep_interest.abtest.sequential import half_width
from deep_interest.errors import InputError

TAU = np.log(1.05)


def test_the_always_valid_interval_by_hand():
    variance = TAU**2 / 7
    # (V + tau²) / tau² = 8/7, (V + tau²) / V = 8
    expected = np.sqrt(variance * 8 / 7 * np.log(8 / 0.05**2))
    found = always_valid(LogDifference(0.02, variance, 1000), expected_lift=0.05)
    assert found.lift == pytest.approx(np.expm1(0.02))
    assert np.log1p([found.low, found.high]) == pytest.approx([0.02 - expected, 0.02 + expected])


def test_the_interval_excludes_zero_where_the_p_value_is_below_the_level():
    for variance in TAU**2 * np.array([0.01, 0.3, 1, 30]):
        half = half_width(variance, 0.05, 0.05)
        assert always_valid_p(LogDifference(half, variance, 100), expected_lift=0.05) == pytest.approx(0.05)
        assert always_valid_p(LogDifference(0.0, variance, 100), expected_lift=0.05) == 1


def test_the_p_value_is_the_inverse_of_the_mixture_of_likelihood_ratios():
    difference, variance = 0.09, 0.03**2
    effects = np.linspace(-0.6, 0.6, 200_001)
    ratio = np.exp((difference * effects - effects**2 / 2) / variance)
    mixture = np.sum(ratio * stats.norm.pdf(effects, 0, TAU)) * (effects[1] - effects[0])
    assert always_valid_p(LogDifference(difference, variance, 100), expected_lift=0.05) == pytest.approx(1 / mixture, rel=1e-6)  # fmt: skip


def test_a_look_is_never_easier_than_3_standard_errors():
    """The basis of the union bound in the documentation: 20 looks below 5 %, 28 below 7 %."""
    variances = TAU**2 / np.geomspace(1e-3, 1e5, 20_001)
    narrowest = min(half_width(variance, 0.05, 0.05) / variance**0.5 for variance in variances)
    assert narrowest == pytest.approx(3.04, abs=0.005)
    at_a_look = 2 * stats.norm.sf(narrowest)
    assert 20 * at_a_look < 0.05
    assert 28 * at_a_look < 0.07


@pytest.mark.slow
def test_looks_with_independent_increments_keep_the_level():
    rng = np.random.default_rng(0)
    sums = rng.normal(0, 1, (4000, 200)).cumsum(axis=1)  # of unit variance: D = sum / t, V = s² / t
    scale = TAU / 2
    means, variances = scale * sums / np.arange(1, 201), scale**2 / np.arange(1, 201)
    halves = np.array([half_width(variance, 0.05, 0.05) for variance in variances])
    crossed = (np.abs(means) > halves).any(axis=1).mean()
    assert 0.005 < crossed < 0.05
    fixed = (np.abs(means) > stats.norm.ppf(0.975) * np.sqrt(variances)).any(axis=1).mean()
    assert fixed > 0.3  # what looking every day does to a fixed-horizon interval


def test_the_sample_ratio_by_hand():
    found = sample_ratio({"base": 60, "din": 40}, {"base": 1, "din": 1})
    assert found.p_value == pytest.approx(stats.chi2.sf(10**2 / 50 + 10**2 / 50, 1))
    assert found.is_as_planned
    unequal = sample_ratio({"base": 9000, "din": 1000}, {"base": 0.9, "din": 0.1})
    assert (unequal.p_value, unequal.expected) == (1, {"base": 9000, "din": 1000})
    assert not sample_ratio({"base": 5200, "din": 4800}, {"base": 0.5, "din": 0.5}).is_as_planned


def test_the_sample_ratio_needs_the_same_arms():
    for users, split in (({"a": 1}, {"a": 1}), ({"a": 1, "b": 1}, {"a": 1, "c": 1})):
        with pytest.raises(InputError, match="split: found the arms"):
            sample_ratio(users, split)
    with pytest.raises(InputError, match="expected shares above 0"):
        sample_ratio({"a": 1, "b": 1}, {"a": 1, "b": 0})
    with pytest.raises(InputError, match="no user"):
        sample_ratio({"a": 0, "b": 0}, {"a": 1, "b": 1})


def test_the_curve_of_new_users_and_of_the_same_users():
    days = np.arange(1, 15)
    near_zero = pytest.approx(0, abs=1e-12)
    assert fit_variance_curve(0.04 / days) == VarianceCurve(14, near_zero, pytest.approx(0.04))
    assert fit_variance_curve(np.full(14, 0.04)) == VarianceCurve(14, pytest.approx(0.04), near_zero)
    assert fit_variance_curve(0.01 + 0.04 / days).at(56) == pytest.approx(0.01 + 0.04 / 56)
    doubled_at_the_end = np.where(days == 14, 2, 1) * 0.04 / days
    assert fit_variance_curve(doubled_at_the_end).at(14) == pytest.approx(doubled_at_the_end[-1])
    assert fit_variance_curve([0.1, 0.05, 0.03]) is None
    assert fit_variance_curve([np.nan] * 8) is None
    assert fit_variance_curve([np.nan, *(0.04 / days)]).days == 15


def test_days_by_hand():
    quantiles = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    curve = VarianceCurve(10, 0.0, 10 * 0.01**2)
    assert detectable_lift(0.01**2) == pytest.approx(np.expm1(quantiles * 0.01))
    half_of_it = np.expm1(quantiles * 0.01 / 2)  # four times the days
    assert days_until(curve, half_of_it * 1.0001) == 30
    assert days_until(curve, np.expm1(quantiles * 0.01) * 1.0001) == 0
    assert days_until(curve, -half_of_it / (1 + half_of_it) * 1.0001) == 30  # the same factor downwards
    assert days_until(curve, 0.001) == np.inf
    assert np.isnan(days_until(curve, 0.0))
    assert (
        days_until(VarianceCurve(10, 0.9 * 0.01**2, 10 * 0.1 * 0.01**2), half_of_it) == np.inf
    )  # the floor is too high
    always = days_until(curve, half_of_it, always_valid_at=0.05)
    error = curve.at(10 + int(always)) ** 0.5
    needed = half_width(error**2, 0.05, 0.05) + stats.norm.ppf(0.8) * error
    assert needed <= np.log1p(half_of_it)
    assert always > 30


@pytest.mark.parametrize("lift", [0.0, -0.1, np.nan, np.inf])
def test_an_expected_lift_is_above_zero(lift):
    with pytest.raises(InputError, match="expected_lift: found"):
        always_valid(LogDifference(0.1, 0.01, 10), expected_lift=lift)


def test_planned_looks_have_the_published_boundaries():
    """Five equally spaced looks at 5 %: Lan and DeMets (1983), spending function of Pocock's boundaries."""
    looks = [0.2, 0.4, 0.6, 0.8, 1.0]
    found = boundaries(looks, [spent_error(share) for share in looks])
    assert [round(bound, 2) for bound in found] == [2.44, 2.43, 2.41, 2.40, 2.39]
    assert boundaries([7.0], [0.05]) == pytest.approx([stats.norm.ppf(0.975)])


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_planned_looks_spend_the_level(floor):
    days = np.arange(1, 29)
    information = 1 / (floor + 1 / days)
    bounds = np.array(boundaries(information.tolist(), [spent_error(day / 28) for day in days.tolist()]))
    steps = np.sqrt(np.diff(information, prepend=0))
    sums = (np.random.default_rng(0).normal(0, 1, (40_000, 28)) * steps).cumsum(axis=1)
    crossed = np.abs(sums) / np.sqrt(information) > bounds
    assert crossed.any(axis=1).mean() == pytest.approx(0.05, abs=0.0035)  # three standard errors
    assert crossed[:, :7].any(axis=1).mean() == pytest.approx(spent_error(0.25), abs=0.003)


def test_a_look_without_new_users_has_the_boundary_of_the_last_one():
    first, same, later = boundaries([1.0, 1.0, 2.0], [0.02, 0.03, 0.05])
    assert first == same == pytest.approx(stats.norm.ppf(0.99))
    assert later == pytest.approx(boundaries([1.0, 2.0], [0.02, 0.05])[1])


def test_intervals_of_planned_days_follow_the_boundaries():
    found = [LogDifference(0.1, 0.01 / day, 1e6) for day in (1, 2)] + [LogDifference(np.nan, np.nan, np.nan)]
    shown = valid_on_planned_days(found, [1, 2, 3], planned_days=4)
    bounds = boundaries([100.0, 200.0], [spent_error(0.25), spent_error(0.5)])
    for each, lift, bound in zip(found[:2], shown[:2], bounds, strict=True):
        assert np.log1p(lift.high) - 0.1 == pytest.approx(bound * each.variance**0.5, rel=1e-4)
        assert lift.p_value == each.lift().p_value
    assert np.isnan(shown[2].low)
    with pytest.raises(InputError, match="planned_days: found 2, but the log has 3 days"):
        valid_on_planned_days(found, [1, 2, 3], planned_days=2)
