"""Non-inferiority: values by hand, the level at the margin, and the choice of the smallest model."""

import numpy as np
import pytest
from scipy import stats
from support.user_aucs import users_of

from deep_interest.errors import InputError
from deep_interest.evaluation import Candidate, non_inferiority, smallest_not_worse


def test_the_test_by_hand():
    # Differences .1 and .3: mean .2, standard error .1, one degree of freedom.
    found = non_inferiority(users_of([0.6, 0.8]), users_of([0.5, 0.5]), margin=0.1)
    assert found.difference == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 - stats.t.ppf(0.95, 1) * 0.1)
    assert found.p_value == pytest.approx(stats.t.sf(3, 1))
    assert not found.is_shown
    assert non_inferiority(users_of([0.6, 0.8]), users_of([0.5, 0.5]), margin=0.5).is_shown


def test_a_model_that_may_be_equal_is_not_shown_to_be_as_good():
    noisy = users_of(0.5 + np.random.default_rng(0).normal(0, 0.1, 30))
    found = non_inferiority(noisy, users_of(np.full(30, 0.5)), margin=0.001)
    assert found.low < -0.001
    assert not found.is_shown


def test_identical_models_are_not_inferior_by_any_margin():
    same = users_of([0.5, 0.7])
    found = non_inferiority(same, same, margin=1e-6)
    assert (found.difference, found.p_value, found.is_shown) == (0, 0, True)


def test_the_interval_and_the_p_value_agree():
    rng = np.random.default_rng(1)
    base = users_of(np.full(50, 0.6))
    for shift in np.linspace(-0.05, 0.02, 30):
        found = non_inferiority(users_of(0.6 + shift + rng.normal(0, 0.05, 50)), base, margin=0.02)
        assert found.is_shown == (found.low > -0.02) == (found.p_value < 0.05)


@pytest.mark.slow
def test_a_model_that_is_worse_by_the_margin_passes_as_rarely_as_the_level_says():
    rng, base = np.random.default_rng(2), users_of(np.full(100, 0.6))
    passed = [
        non_inferiority(users_of(0.58 + rng.normal(0, 0.1, 100)), base, margin=0.02).is_shown
        for _ in range(4000)
    ]
    assert np.mean(passed) == pytest.approx(0.05, abs=0.011)


def candidates(rng, users=2000):
    """Return models of equal (small, large), lower (tiny) and unknown (bad) quality."""
    truth = 0.6 + rng.normal(0, 0.1, users)
    noise = lambda: rng.normal(0, 0.02, users)  # noqa: E731
    quality = {"large": 0.0, "small": 0.0, "tiny": -0.01, "worse": -0.05}
    costs = {"large": 10.0, "small": 4.0, "tiny": 1.0, "worse": 2.0}
    return {name: Candidate(users_of(truth + of + noise()), cost=costs[name]) for name, of in quality.items()}


def test_the_smallest_model_that_is_not_worse_is_named():
    found = candidates(np.random.default_rng(3))
    name, tests = smallest_not_worse(found, reference="large", margin=0.005)
    assert name == "small"
    assert set(tests) == {"small", "tiny", "worse"}
    assert {key for key, test in tests.items() if test.is_shown} == {"small"}
    generous, _ = smallest_not_worse(found, reference="large", margin=0.02)
    assert generous == "tiny"


def test_without_a_cheaper_model_the_reference_remains():
    found = candidates(np.random.default_rng(3))
    assert smallest_not_worse(found, reference="tiny", margin=0.01) == ("tiny", {})


def test_the_p_values_of_several_models_are_corrected():
    found = candidates(np.random.default_rng(4))
    _, tests = smallest_not_worse(found, reference="large", margin=0.0012)
    alone = non_inferiority(found["small"].users, found["large"].users, margin=0.0012)
    assert tests["small"].p_value == pytest.approx(min(1, 3 * alone.p_value))


def test_mistakes_are_named():
    one = users_of([0.5, 0.6])
    with pytest.raises(InputError, match="margin: found 0"):
        non_inferiority(one, one, margin=0)
    with pytest.raises(InputError, match=r"level: found 0\.5"):
        non_inferiority(one, one, margin=0.1, level=0.5)
    with pytest.raises(InputError, match="reference: din is not among the models; they are base"):
        smallest_not_worse({"base": Candidate(one, 1.0)}, reference="din", margin=0.1)
