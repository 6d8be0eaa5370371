"""The paired bootstrap over users: values by hand, agreement with the t interval, and coverage of the truth."""

import numpy as np
import pytest

from deep_interest.errors import InputError
from deep_interest.evaluation import difference_interval, paired_bootstrap, user_aucs

USERS = np.repeat(["ann", "bob", "cy", "dee"], 4)
LABELS = np.tile([1, 0, 1, 0], 4)
BASE = np.tile([0.6, 0.7, 0.3, 0.2], 4)  # one of four pairs in the wrong order, and .3 against .7
OURS = np.tile([0.6, 0.4, 0.3, 0.2], 4)


def drawn(users: int, seed: int, *, gain: float = 0.0):
    """Return samples of users with different tastes for two models; the second ranks better by ``gain`` on average."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), 8)
    label = rng.integers(0, 2, len(user))
    base = label + rng.normal(0, 1.5, len(user))
    ours = label * (1 + gain + rng.normal(0, 0.5, users)[user]) + rng.normal(0, 1.5, len(user))
    return user, label, ours, base


def test_the_difference_is_that_of_the_gaucs_by_hand():
    # base: pairs (.6, .7) lost, (.6, .2) won, (.3, .7) lost, (.3, .2) won: 1/2; ours: only (.3, .4) is lost: 3/4
    interval = paired_bootstrap(USERS, LABELS, OURS, BASE, resamples=99)
    assert (interval.difference, interval.low, interval.high) == (0.25, 0.25, 0.25)
    assert interval.p_value == 2 / 100


def test_users_are_drawn_with_the_weights_of_their_rows():
    # Two users: a with 4 rows and a difference of 1, b with 2 rows and none. A resample is (a, a), (a, b), (b, a) or (b, b).
    users, labels = np.array([1, 1, 1, 1, 2, 2]), np.array([1, 0, 1, 0, 1, 0])
    ours, base = np.array([2, 1, 2, 1, 1, 0]), np.array([1, 2, 1, 2, 1, 0])
    interval = paired_bootstrap(users, labels, ours, base, resamples=4000, confidence=0.98)
    assert interval.difference == pytest.approx(2 / 3)
    assert (interval.low, interval.high) == (0, 1)
    inner = paired_bootstrap(users, labels, ours, base, resamples=4000, confidence=0.4)
    assert (inner.low, inner.high) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_fits_of_a_model_are_averaged_for_each_user():
    user, label, ours, base = drawn(60, 0)
    several = np.stack([ours, base])
    interval = paired_bootstrap(user, label, several, base, resamples=50)
    expected = (user_aucs(user, label, ours).gauc().value - user_aucs(user, label, base).gauc().value) / 2
    assert interval.difference == pytest.approx(expected)


def test_the_interval_is_close_to_that_of_the_t_distribution():
    user, label, ours, base = drawn(800, 1)
    found = paired_bootstrap(user, label, ours, base, resamples=4000)
    expected = difference_interval(user_aucs(user, label, ours), user_aucs(user, label, base))
    width = expected.high - expected.low
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.06 * width)
    assert found.p_value == pytest.approx(expected.p_value, abs=0.05)


def test_the_same_seed_gives_the_same_interval():
    data = drawn(50, 2)
    assert paired_bootstrap(*data, resamples=300) == paired_bootstrap(*data, resamples=300)
    assert paired_bootstrap(*data, resamples=300) != paired_bootstrap(*data, resamples=300, seed=1)


@pytest.mark.slow
def test_the_interval_covers_the_true_difference_as_often_as_it_says():
    # The truth: the mean over 400 sets of 300 users each, which no single set decides.
    sets = [drawn(300, seed, gain=0.3) for seed in range(400)]
    truth = np.mean([paired_bootstrap(*data, resamples=1).difference for data in sets])
    covered = [
        interval.low <= truth <= interval.high
        for interval in (paired_bootstrap(*data, resamples=500) for data in sets)
    ]
    assert 0.92 <= np.mean(covered) <= 0.98  # standard error 1.1 %


@pytest.mark.parametrize(
    ("options", "message"),
    [({"confidence": 1.0}, "confidence: found 1.0"), ({"resamples": 0}, "resamples: found 0")],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        paired_bootstrap(USERS, LABELS, OURS, BASE, **options)


def test_a_single_user_cannot_be_resampled():
    with pytest.raises(InputError, match="found 1 with both classes"):
        paired_bootstrap([1, 1, 2], [1, 0, 1], [1, 0, 1], [0, 1, 1])
