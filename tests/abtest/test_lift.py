"""Lifts: values by hand, a bootstrap over users, a regression, and what must not change them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from deep_interest.abtest import METRICS, Moments, UserDays, lift_of, log_difference
from deep_interest.errors import InputError

ARMS = ("base", "din")


def arm(*rows) -> Moments:
    """Return the moments of users with (impressions, clicks, revenue)."""
    return Moments.of(np.array(rows, float))


def random_users(rng, users: int, *, ctr: float = 0.2) -> np.ndarray:
    impressions = 1 + rng.poisson(np.exp(rng.normal(2, 0.7, users)))
    clicks = rng.binomial(impressions, np.clip(ctr * np.exp(rng.normal(0, 0.4, users)), 0, 1))
    return np.column_stack([impressions, clicks, rng.gamma(2 * clicks, 0.7)]).astype(float)


def test_the_interval_of_a_ratio_by_hand():
    treated = arm((10, 1, 0), (10, 3, 0))  # CTR 4 / 20; contributions 1/2 - 1 and 3/2 - 1
    control = arm((10, 1, 0), (30, 3, 0))  # CTR 4 / 40; contributions 0 and 0
    found = log_difference(treated, control, METRICS["ctr"])
    assert found.difference == pytest.approx(np.log(2))
    assert found.variance == pytest.approx((0.25 + 0.25) / 1 / 2)
    assert found.df == pytest.approx(1)  # all variance is that of two users
    lift = lift_of(treated, control, "ctr")
    half = stats.t.ppf(0.975, 1) * 0.5
    assert lift.lift == pytest.approx(1.0)
    assert (lift.low, lift.high) == pytest.approx((2 * np.exp(-half) - 1, 2 * np.exp(half) - 1))
    assert lift.p_value == pytest.approx(2 * stats.t.sf(np.log(2) / 0.5, 1))


def test_every_metric_by_hand():
    treated, control = arm((10, 2, 3), (10, 2, 1), (20, 1, 1)), arm((10, 1, 1), (10, 3, 1))
    values = {key: (treated.ratio(metric), control.ratio(metric)) for key, metric in METRICS.items()}
    assert values["ctr"] == pytest.approx((5 / 40, 4 / 20))
    assert values["rpm"] == pytest.approx((1000 * 5 / 40, 1000 * 2 / 20))
    assert values["pay_per_click"] == pytest.approx((5 / 5, 2 / 4))
    assert values["clicks_per_user"] == pytest.approx((5 / 3, 4 / 2))
    assert values["revenue_per_user"] == pytest.approx((5 / 3, 2 / 2))
    for key, (one, other) in values.items():
        assert lift_of(treated, control, key).lift == pytest.approx(one / other - 1)


@pytest.mark.parametrize("metric", METRICS)
def test_the_variance_is_that_of_a_bootstrap_over_users(metric):
    rng = np.random.default_rng(0)
    users = [random_users(rng, 700), random_users(rng, 500, ctr=0.3)]
    found = log_difference(Moments.of(users[0]), Moments.of(users[1]), METRICS[metric])

    def resampled(values: np.ndarray) -> np.ndarray:
        counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), 1500)
        sums = counts @ values
        of = METRICS[metric]
        return np.log(sums[:, of.y] / (len(values) if of.x is None else sums[:, of.x]))

    assert found.variance**0.5 == pytest.approx(np.std(resampled(users[0]) - resampled(users[1])), rel=0.07)


def test_cuped_is_the_regression_on_the_covariates_with_equal_arms():
    rng = np.random.default_rng(1)
    arms = []
    for _ in range(2):
        values = random_users(rng, 400)
        before = values[:, 1] + rng.normal(0, 1, 400)
        arms.append(np.column_stack([values, before, values[:, 0] + rng.normal(0, 5, 400)]))
    # Each user's contribution to the logarithm, and a regression on the arm and the covariates.
    contributions = [of[:, 1] / of[:, 1].mean() - of[:, 0] / of[:, 0].mean() for of in arms]
    is_treated = np.repeat([1.0, 0.0], 400)
    design = np.column_stack([np.ones(800), is_treated, np.vstack([of[:, 3:] for of in arms])])
    outcome = np.concatenate(contributions)
    coefficients, residual, *_ = np.linalg.lstsq(design, outcome, rcond=None)
    plain = np.log(arms[0][:, 1].sum() / arms[0][:, 0].sum() * arms[1][:, 0].sum() / arms[1][:, 1].sum())
    found = log_difference(Moments.of(arms[0]), Moments.of(arms[1]), METRICS["ctr"], cuped=True)
    assert found.difference == pytest.approx(plain + coefficients[1])
    assert found.variance == pytest.approx(residual[0] / (800 - 4) * (2 / 400))
    without = log_difference(Moments.of(arms[0]), Moments.of(arms[1]), METRICS["ctr"])
    assert found.variance < 0.9 * without.variance


def test_cuped_never_widens_the_interval_of_unequal_arms():
    rng = np.random.default_rng(2)
    arms = []
    for users, slope in ((100, 3.0), (2000, -1.0)):  # the covariate predicts the two arms differently
        values = random_users(rng, users)
        arms.append(Moments.of(np.column_stack([values, slope * values[:, 1] + rng.normal(0, 3, users)])))
    plain, cuped = (log_difference(*arms, METRICS["ctr"], cuped=flag).variance for flag in (False, True))
    assert cuped <= plain * (2100 - 2) / (2100 - 3)


counts = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 50), st.floats(0.01, 100)).map(
        lambda of: (of[0], 1 + min(of[1], of[0] - 1), of[2])
    ),
    min_size=2, max_size=20,
)  # fmt: skip


@pytest.mark.slow
@given(counts, counts, st.sampled_from(list(METRICS)))
def test_swapping_the_arms_flips_the_sign(one, other, metric):
    forth, back = (
        log_difference(*pair, METRICS[metric])
        for pair in ((arm(*one), arm(*other)), (arm(*other), arm(*one)))
    )
    assert forth.difference == pytest.approx(-back.difference)
    assert forth.variance == pytest.approx(back.variance)
    low, high = forth.lift().low, back.lift().high
    if forth.is_defined:
        assert (1 + low) * (1 + high) == pytest.approx(1)


@given(counts, counts, st.floats(1e-3, 1e3))
def test_the_currency_does_not_change_the_lift(one, other, rate):
    scaled = [arm(*((x, y, rate * z) for x, y, z in users)) for users in (one, other)]
    for metric in ("rpm", "pay_per_click", "revenue_per_user"):
        before, after = (
            log_difference(*arms, METRICS[metric]) for arms in ((arm(*one), arm(*other)), scaled)
        )
        assert after.difference == pytest.approx(before.difference, abs=1e-9)
        assert after.variance == pytest.approx(before.variance, abs=1e-12)


def test_the_currency_does_not_change_what_cuped_subtracts():
    rng = np.random.default_rng(3)
    values, arms = random_users(rng, 300), np.repeat(ARMS, 150)

    def log(rate: float) -> UserDays:
        scale = np.array([1, 1, rate])
        before = (np.arange(300), scale * (values + rng_before))
        return UserDays.of(
            np.arange(300), arms, np.zeros(300, int), scale * values, arm_names=ARMS, pre_period=before
        )

    rng_before = rng.gamma(1, 1, (300, 3))
    found = [
        log_difference(of["din"], of["base"], METRICS["rpm"], cuped=True)
        for of in (log(1.0).moments(), log(117.5).moments())
    ]
    assert found[0].difference == pytest.approx(found[1].difference, rel=1e-6)
    assert found[0].variance == pytest.approx(found[1].variance, rel=1e-6)


def test_users_who_are_all_alike_have_no_interval():
    alike = lift_of(arm((10, 1, 0.1), (30, 3, 0.3)), arm((10, 2, 0.7), (20, 4, 1.4)), "ctr")
    assert alike.lift == pytest.approx(-0.5)
    assert np.isnan(alike.p_value)


def test_a_metric_that_is_zero_in_an_arm_has_no_lift():
    found = lift_of(arm((10, 0, 0), (10, 0, 0)), arm((10, 1, 0), (10, 2, 0)), "ctr")
    assert all(np.isnan([found.lift, found.low, found.high, found.p_value]))
    assert not found.excludes_zero


def test_invalid_arguments_are_refused():
    two = arm((10, 1, 1), (10, 2, 1))
    with pytest.raises(InputError, match="metric: found 'ctrr', expected one of ctr, rpm"):
        lift_of(two, two, "ctrr")
    with pytest.raises(InputError, match=r"level: found 1\.5"):
        lift_of(two, two, "ctr", level=1.5)
    with pytest.raises(InputError, match="found 1 and 2 users"):
        lift_of(arm((10, 1, 1)), two, "ctr")
    with pytest.raises(InputError, match="no covariates from before the test"):
        lift_of(two, two, "ctr", cuped=True)
    with pytest.raises(InputError, match="found 4 users for 3 covariates"):
        three = Moments.of(np.arange(12.0).reshape(2, 6) + 1)
        lift_of(three, three, "ctr", cuped=True)
    with pytest.raises(InputError, match="expected one row per user"):
        Moments.of([[1, 2]])
