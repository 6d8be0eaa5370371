"""The distribution of the delays, against products by hand and against all clicks of a log."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.retraining.arrivals import estimate_arrivals


def test_the_product_of_a_tiny_log_by_hand():
    """Four clicks, of impressions 2, 10, 10 and 10 hours before the night.

    The delay of 5 is compared with the clicks that could have had it, those on impressions older than 5 (three), and the delay of 3 with the
    two of them that took at most 3: F(3) = 1 - 1/3 and F(1) = F(3) (1 - 1/2). Without the truncation the share up to 1 would be 2 of 4.
    """
    arrived = estimate_arrivals([1, 1, 3, 5], [2, 10, 10, 10], at_least=1)
    assert arrived.delays.tolist() == [1, 3, 5]
    assert arrived.shares == pytest.approx([1 / 3, 2 / 3, 1])
    assert arrived.clicks == 4
    assert arrived([2, 3, 4, 5, 6, 99]) == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3, 1, 1])
    assert arrived(1) == pytest.approx(1e-6)  # a delay of 1 is not less than an age of 1
    assert [arrived.quantile(share) for share in (0.3, 0.5, 1.0)] == [1, 3, 5]


def test_delays_that_few_clicks_could_have_are_left_out():
    """Only one impression is older than 5 hours: with at least two, F ends at 3 and the click after 5 is not counted."""
    arrived = estimate_arrivals([1, 1, 3, 5], [4, 4, 4, 10], at_least=2)
    assert arrived.delays.tolist() == [1, 3]
    assert arrived.shares == pytest.approx([2 / 3, 1])
    assert arrived.clicks == 3


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_without_truncation_it_is_the_share_of_the_clicks(delays):
    arrived = estimate_arrivals(delays, [100] * len(delays), at_least=1)
    for age in range(12):
        assert arrived(age) == pytest.approx(max(np.mean(np.array(delays) < age), 1e-6), abs=1e-9)


def test_exponential_delays_are_recovered_from_truncated_ones():
    """Impressions of four days, mean delay of 24 hours: 26 % of the clicks are missing, most of them slow ones."""
    rng, hour = np.random.default_rng(3), 3_600
    age = rng.integers(1, 96 * hour, 60_000)
    delay = rng.exponential(24 * hour, len(age)).astype(int)
    seen = delay < age
    arrived, ages = estimate_arrivals(delay[seen], age[seen]), np.array([6, 12, 24, 48])
    true = (1 - np.exp(-ages / 24)) / (1 - np.exp(-arrived.delays[-1] / hour / 24))
    assert arrived(ages * hour) == pytest.approx(true, abs=0.01)
    naive = [(delay[seen] < limit).mean() for limit in ages * hour]
    assert (naive > true + 0.03).all()


def test_without_a_click_the_message_names_the_column():
    with pytest.raises(InputError, match=r"source\.impressions\.click_time"):
        estimate_arrivals([], [])
