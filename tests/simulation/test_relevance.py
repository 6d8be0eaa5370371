"""Decayed counts, compared with hand calculation and with a loop over pairs."""

import numpy as np
import pytest

from deep_interest.simulation.config import ClickConfig, SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.relevance import decayed_counts, lasting_log_odds, relevance
from deep_interest.simulation.world import make_world

DAY = 86_400


def _events(*rows: tuple[int, int, float]) -> Events:
    user, item, day = zip(*rows, strict=True)
    return Events(user=np.array(user), item=np.array(item), second=(np.array(day) * DAY).astype(np.int64))


def test_the_weight_of_a_behaviour_halves_with_every_half_life():
    behaviors, impressions = _events((0, 0, 0), (0, 0, 2)), _events((0, 0, 4))

    counts = decayed_counts(behaviors, np.array([5, 5]), impressions, np.array([5]), half_life_days=2)

    assert counts == pytest.approx([0.25 + 0.5])


def test_only_earlier_behaviours_of_the_same_user_and_key_count():
    behaviors = _events((0, 0, 1), (0, 0, 1), (0, 0, 2), (1, 0, 1))
    impressions = _events((0, 0, 1), (0, 0, 1.5), (0, 0, 2), (1, 0, 3), (2, 0, 3), (0, 0, 9))
    keys, candidate_keys = np.array([3, 4, 3, 3]), np.array([3, 3, 3, 4, 3, -1])

    counts = decayed_counts(behaviors, keys, impressions, candidate_keys, half_life_days=1e9)

    assert counts == pytest.approx([0, 1, 1, 0, 0, 0])


def test_counts_equal_those_of_a_loop_over_all_pairs():
    rng = np.random.default_rng(0)
    N, M = 400, 300
    behaviors = Events(rng.integers(6, size=N), np.zeros(N, int), rng.integers(300 * DAY, size=N))
    impressions = Events(rng.integers(7, size=M), np.zeros(M, int), rng.integers(300 * DAY, size=M))
    keys, candidate_keys = rng.integers(3, size=N), rng.integers(-1, 4, size=M)

    expected = np.zeros(M)
    for a in range(M):
        for j in range(N):
            age = impressions.second[a] - behaviors.second[j]
            if behaviors.user[j] == impressions.user[a] and keys[j] == candidate_keys[a] and age > 0:
                expected[a] += 0.5 ** (age / (1.5 * DAY))

    counts = decayed_counts(behaviors, keys, impressions, candidate_keys, half_life_days=1.5)
    np.testing.assert_allclose(counts, expected, rtol=1e-9, atol=1e-300)


def test_relevance_is_the_weighted_sum_of_matches():
    config = SimulationConfig(users=1, items=200, categories=6, themes=2, shops=30, styles=2)
    world = make_world(config)
    weights = ClickConfig(
        theme_weight=1,
        next_weight=10,
        category_weight=100,
        style_weight=1_000,
        shop_weight=0,
        half_life_days=1e9,
    )
    item_of = {c: int(np.flatnonzero(world.item_category == c)[0]) for c in range(6)}
    same_style = next(
        i
        for i in np.flatnonzero(world.item_category == 1)
        if i != item_of[1] and world.item_style[i] == world.item_style[item_of[1]]
    )
    cases = {  # behaviour, candidate -> K; the paths are 0-1-2 and 3-4-5
        (item_of[0], item_of[1]): 1 + 10,
        (item_of[1], item_of[0]): 1,
        (item_of[0], item_of[2]): 1,
        (item_of[2], item_of[3]): 0,
        (item_of[1], same_style): 1 + 100 + 1_000,
    }

    for (behavior, candidate), expected in cases.items():
        f = relevance(world, weights, _events((0, behavior, 0)), _events((0, candidate, 1)))
        assert f == pytest.approx([expected])


def test_later_behaviours_do_not_change_relevance():
    config = SimulationConfig(users=1, items=200, categories=6, themes=2, shops=30)
    world, rng = make_world(config), np.random.default_rng(1)
    past = [(0, int(item), 1 + k) for k, item in enumerate(rng.integers(200, size=9))]
    future = [(0, int(item), 12 + k) for k, item in enumerate(rng.integers(200, size=30))]
    impressions = _events(*((0, int(item), 11) for item in rng.integers(200, size=50)))

    expected = relevance(world, config.clicks, _events(*past), impressions)

    assert expected.max() > 0
    np.testing.assert_array_equal(
        relevance(world, config.clicks, _events(*past, *future), impressions), expected
    )


def test_old_behaviours_in_the_candidates_category_count_as_much_as_new_ones():
    """Three behaviours in the candidate's category, half saturation 3, strength 4: 4 · 3 / (3 + 3) = 2; later ones do not count."""
    world = make_world(SimulationConfig(users=1, items=200, categories=6, themes=2, shops=30, styles=2))
    same = np.flatnonzero(world.item_category == world.item_category[0])[:3]
    other = np.flatnonzero(world.item_category != world.item_category[0])[0]
    behaviors = _events(
        (0, same[0], 0),
        (0, other, 1),
        (0, same[1], 200),
        (0, same[2], 299),
        (0, same[0], 301),
        (1, same[0], 1),
    )
    impressions = _events((0, same[0], 300), (0, other, 300), (2, same[0], 300))
    clicks = ClickConfig(lasting_strength=4, lasting_half_saturation=3)

    assert lasting_log_odds(world, clicks, behaviors, impressions) == pytest.approx([2, 1, 0])
