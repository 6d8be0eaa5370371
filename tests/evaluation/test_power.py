"""Power: values by hand, and how often simulated tests find what the prediction says."""

import numpy as np
import pytest
from scipy import stats
from support.user_aucs import users_of

from deep_interest.errors import InputError
from deep_interest.evaluation import SeedVariance, difference_interval, power_of, variance_over_seeds

QUANTILES = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)


def test_the_smallest_difference_by_hand():
    # Differences .1 and .3: variance of their mean .02 / 2 = .01.
    found = power_of(users_of([0.6, 0.8]), users_of([0.5, 0.5]))
    assert (found.of_users, found.of_seeds, found.users) == (pytest.approx(0.01), 0, 2)
    assert found.smallest_difference == pytest.approx(QUANTILES * 0.1)
    assert found.factor(QUANTILES * 0.05) == pytest.approx(4)  # half the difference, four times the users
    assert found.users_for(QUANTILES * 0.05) == pytest.approx(8)
    assert found.days_for(QUANTILES * 0.05, days=3) == pytest.approx(12)


def test_more_users_do_not_reduce_the_main_effect_of_the_seeds():
    seeds = [SeedVariance(seeds=2, total=0.006, interaction=0.002), SeedVariance(4, 0.008, 0.004)]
    found = power_of(users_of([0.6, 0.8]), users_of([0.5, 0.5]), seeds=seeds)
    # interactions .001 + .001, main effects .004 / 2 + .004 / 4
    assert found.of_users == pytest.approx(0.01 - 0.002 + 0.002)
    assert found.of_seeds == pytest.approx(0.003)
    assert found.factor(QUANTILES * 0.05) == np.inf  # .0025 allowed, .003 of seeds
    assert found.factor(QUANTILES * 0.1) == pytest.approx(0.01 / (0.01 - 0.003))


def test_the_power_falls_with_its_probability():
    ours, base = users_of([0.6, 0.8, 0.4]), users_of([0.5, 0.5, 0.5])
    often, seldom = (power_of(ours, base, power=power).smallest_difference for power in (0.9, 0.5))
    assert often > seldom
    assert seldom == pytest.approx(stats.norm.ppf(0.975) * stats.sem([0.1, 0.3, -0.1]))


@pytest.mark.slow
@pytest.mark.parametrize("fits", [1, 5])
def test_the_smallest_difference_is_found_as_often_as_predicted(fits):
    users, tests, rng = 400, 600, np.random.default_rng(0)

    def once(difference: float):
        """Return the AUCs of two models with effects of users, of seeds, and of both."""
        taste = rng.normal(0, 0.1, (2, 1, users))
        noise = rng.normal(0, 0.1, (2, fits, users)) + rng.normal(0, 0.004, (2, fits, 1)) * (fits > 1)
        ours, base = 0.6 + taste + noise
        ours = [users_of(auc) for auc in ours + difference]
        base = [users_of(auc) for auc in base]
        seeds = [variance_over_seeds(ours), variance_over_seeds(base)] if fits > 1 else []
        mean = [users_of(np.mean([fit.auc for fit in of], axis=0)) for of in (ours, base)]
        return *mean, seeds

    def power_at(difference: float) -> float:
        found = []
        for _ in range(tests):
            ours, base, seeds = once(difference)
            found.append(difference_interval(ours, base, seeds=seeds).p_value < 0.05)
        return float(np.mean(found))

    predictions = []
    for _ in range(50):
        ours, base, seeds = once(0.0)
        predictions.append(power_of(ours, base, seeds=seeds))
    smallest = float(np.median([of.smallest_difference for of in predictions]))
    assert power_at(smallest) == pytest.approx(0.8, abs=0.06)
    assert all(abs(of.smallest_difference / smallest - 1) < 0.35 for of in predictions)


@pytest.mark.slow
def test_as_many_users_as_predicted_find_a_small_difference():
    rng, difference, users = np.random.default_rng(1), 0.01, 200
    sample = rng.normal(0, 0.1, (30, users))
    factor = float(np.median([power_of(users_of(0.6 + of), users_of(np.full(users, 0.6))).factor(difference) for of in sample]))  # fmt: skip
    larger = round(users * factor)
    assert factor > 1
    found = [
        difference_interval(
            users_of(0.6 + difference + rng.normal(0, 0.1, larger)), users_of(np.full(larger, 0.6))
        ).p_value
        < 0.05
        for _ in range(1000)
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("options", [{"power": 0.05}, {"power": 1.0}, {"level": 0.0}, {"level": 0.9}])
def test_probabilities_out_of_range_are_refused(options):
    with pytest.raises(InputError, match="power, level: found"):
        power_of(users_of([0.6, 0.8]), users_of([0.5, 0.5]), **options)


@pytest.mark.parametrize("difference", [0.0, -0.1, np.nan, np.inf])
def test_a_difference_is_a_positive_number(difference):
    with pytest.raises(InputError, match="difference: found"):
        power_of(users_of([0.6, 0.8]), users_of([0.5, 0.5])).factor(difference)


def test_two_equal_models_need_no_users():
    found = power_of(users_of([0.5, 0.6]), users_of([0.5, 0.6]))
    assert (found.smallest_difference, found.factor(0.01)) == (0, 0)
