"""Second-price auctions on CTR^γ × bid, against prices and orders computed by hand."""

import numpy as np
import pytest

from deep_interest.simulation.auction import run_auctions
from deep_interest.simulation.shop_parameters import AuctionParameters

CTR = np.array([[0.1, 0.2, 0.05, 0.3]])
BIDS = np.array([[1.0, 0.6, 4.0, 0.1]])  # the last one is below the reserve price
ALL = np.ones((1, 4), bool)
NO = np.zeros(1, bool)


def auction(slots=2, **options):
    return AuctionParameters(reserve_price=0.2, examination=(1.0,) * slots, **options)


def run(parameters, ctr=CTR, bids=BIDS, can_be_shown=ALL, explores=NO, order=None):
    order = np.zeros((int(explores.sum()), ctr.shape[1])) if order is None else order
    return run_auctions(ctr, bids, can_be_shown, parameters, explores=explores, order=order)


def test_slots_and_prices_are_those_of_a_calculation_by_hand():
    found = run(auction())  # scores 0.1, 0.12, 0.2: order 2, 1, 0
    assert found.column.tolist() == [[2, 1]]
    assert found.score == pytest.approx(np.array([[0.2, 0.12]]))
    assert found.price == pytest.approx(np.array([[0.12 / 0.05, 0.1 / 0.2]]))
    assert found.propensity.tolist() == [[1.0, 1.0]]


def test_gamma_is_the_exponent_of_the_ctr():
    found = run(
        auction(gamma=0.5)
    )  # scores √0.1 = 0.3162, 0.6·√0.2 = 0.2683, 4·√0.05 = 0.8944: order 2, 0, 1
    assert found.column.tolist() == [[2, 0]]
    assert found.price == pytest.approx(np.array([[0.31623 / 0.22361, 0.26833 / 0.31623]]), rel=1e-4)


def test_without_a_next_candidate_the_price_is_the_reserve_price():
    found = run(auction(slots=5))
    assert found.column.tolist() == [[2, 1, 0, -1, -1]]  # the candidate below the reserve price is not shown
    assert found.price[0, 2:].tolist() == [0.2, 0.0, 0.0]
    assert found.propensity.tolist() == [[1.0, 1.0, 1.0, 0.0, 0.0]]


def test_the_reserve_price_is_the_smallest_price():
    found = run(
        auction(slots=1), ctr=np.array([[0.5, 0.01]]), bids=np.array([[1.0, 1.0]]), can_be_shown=ALL[:, :2]
    )
    assert found.price.tolist() == [[0.2]]  # the next score asks for 0.01 / 0.5 = 0.02


def test_a_repeated_candidate_neither_wins_nor_sets_the_price():
    found = run(auction(), can_be_shown=np.array([[True, False, True, True]]))
    assert found.column.tolist() == [[2, 0]]
    assert found.price == pytest.approx(np.array([[0.1 / 0.05, 0.2]]))


def test_of_equal_scores_the_first_candidate_wins():
    found = run(auction(), ctr=np.full((1, 4), 0.1), bids=np.ones((1, 4)))
    assert found.column.tolist() == [[0, 1]]


def test_no_winner_pays_more_than_the_bid():
    rng = np.random.default_rng(0)
    ctr, bids = rng.random((200, 30)), rng.lognormal(size=(200, 30))
    found = run(auction(slots=4, gamma=0.7), ctr, bids, np.ones_like(ctr, dtype=bool), np.zeros(200, bool))
    bid = np.take_along_axis(bids, found.column, axis=1)
    assert (found.price <= bid + 1e-12).all()
    assert (np.diff(found.score, axis=1) <= 0).all()
    every = ctr**0.7 * bids
    assert found.score[:, 0] == pytest.approx(np.where(bids >= 0.2, every, 0).max(axis=1))


def test_exploration_shows_random_candidates_for_the_reserve_price():
    parameters = auction(exploration=0.5)
    found = run(parameters, explores=np.ones(1, bool), order=np.array([[0.9, 0.2, 0.8, 0.99]]))
    assert found.column.tolist() == [
        [0, 2]
    ]  # the largest number belongs to the candidate below the reserve price
    assert found.price.tolist() == [[0.2, 0.2]]
    assert found.propensity == pytest.approx(
        np.array([[0.5 / 3, 0.5 / 3]])
    )  # neither is the best of its slot


def test_candidates_are_shown_as_often_as_their_propensity_says():
    rng, visits = np.random.default_rng(1), 20_000
    parameters = auction(exploration=0.4)
    explores = rng.random(visits) < 0.4
    found = run(
        parameters, np.repeat(CTR, visits, 0), np.repeat(BIDS, visits, 0), np.repeat(ALL, visits, 0), explores,
        rng.random((int(explores.sum()), 4)),
    )  # fmt: skip
    expected = {0: [0.4 / 3, 0.4 / 3], 1: [0.4 / 3, 0.6 + 0.4 / 3], 2: [0.6 + 0.4 / 3, 0.4 / 3]}
    for column, shares in expected.items():
        assert (found.column == column).mean(axis=0) == pytest.approx(np.array(shares), abs=0.015)
        for slot, share in enumerate(shares):
            assert found.propensity[found.column[:, slot] == column, slot] == pytest.approx(share)
