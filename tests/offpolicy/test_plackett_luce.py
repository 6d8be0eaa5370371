"""Probabilities of Plackett-Luce sampling against the sum over all orders, and against sampled orders."""

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.offpolicy.plackett_luce import sample_order, slot_probabilities

SCORES = st.lists(st.floats(-3, 3), min_size=1, max_size=5).map(np.array)


def over_all_orders(scores, temperature, slots):
    """Return the probability of each item in each slot, by its definition."""
    rates = np.exp(scores / temperature)
    found = np.zeros((len(rates), slots))
    for order in permutations(range(len(rates))):
        probability, remaining = 1.0, rates.sum()
        for item in order:
            probability *= rates[item] / remaining
            remaining -= rates[item]
        found[list(order[:slots]), range(slots)] += probability
    return found


@given(SCORES, st.floats(0.3, 3))
def test_probabilities_are_the_sum_over_all_orders(scores, temperature):
    slots = min(3, len(scores))
    found = slot_probabilities(scores, temperature, slots)
    np.testing.assert_allclose(found, over_all_orders(scores, temperature, slots), atol=1e-7)
    asked = np.arange(0, len(scores), 2)
    np.testing.assert_allclose(
        slot_probabilities(scores, temperature, slots, asked), found[asked], atol=1e-12
    )


def test_a_small_temperature_is_the_order_of_the_scores():
    found = slot_probabilities(np.array([0.1, 0.3, 0.2]), 1e-6, 2)
    np.testing.assert_allclose(found, [[0, 0], [1, 0], [0, 1]], atol=1e-8)


def test_every_item_is_in_some_slot():
    found = slot_probabilities(np.linspace(-2, 2, 12), 0.7, 12)
    np.testing.assert_allclose(found.sum(axis=0), 1, atol=1e-7)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-7)


def test_sampled_orders_have_these_probabilities():
    random, scores, counts = np.random.default_rng(0), np.array([0.2, 0.5, 0.1, 0.4]), np.zeros((4, 3))
    repetitions = 5_000
    for _ in range(repetitions):
        counts[sample_order(scores, 0.2, random)[:3], range(3)] += 1
    expected = slot_probabilities(scores, 0.2, 3)
    error = np.sqrt(expected * (1 - expected) / repetitions)
    assert (np.abs(counts / repetitions - expected) < 4.5 * error).all()
