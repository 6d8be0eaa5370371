"""Generalised second-price auction for the slots of a visit, for many visits at once.

Candidates take part if their bid reaches the reserve price. They are ranked by their score CTR^γ × bid (DIN and DIEN, footnote 4). The
candidate in slot k pays for a click the smallest bid that would have kept the slot,

    price_k = max(reserve price, score_(k+1) / CTR_k^γ),

where ``score_(k+1)`` is the score of the next candidate in the order, shown or not. The price is at most the candidate's bid.

A share of the visits explores: their slots are filled with random candidates that take part, for the reserve price. The propensity of what is
shown is known, so a log with exploration can be used to evaluate other rankers.
"""

from dataclasses import dataclass

import numpy as np

from deep_interest.simulation.shop_parameters import AuctionParameters

_SMALLEST_CTR = 1e-12  # so that a price is a number


@dataclass(frozen=True)
class Slots:
    """What is shown in the K slots of each of V visits; all arrays of shape ``(V, K)``.

    Attributes:
        column: column of the candidate; -1 for an empty slot.
        score: CTR^γ × bid.
        price: price of a click.
        propensity: probability with which the candidate is shown in the slot, given the visit and the predictions.
    """

    column: np.ndarray
    score: np.ndarray
    price: np.ndarray
    propensity: np.ndarray


def run_auctions(
    ctr: np.ndarray,
    bids: np.ndarray,
    can_be_shown: np.ndarray,
    auction: AuctionParameters,
    *,
    explores: np.ndarray,
    order: np.ndarray,
) -> Slots:
    """Fill the slots of each visit.

    Args:
        ctr: ``(V, C)`` predicted CTR of each candidate.
        bids: ``(V, C)`` bid of each candidate.
        can_be_shown: ``(V, C)`` whether a candidate can be shown.
        auction: exponent, reserve price, slots and share of exploration.
        explores: ``(V,)`` visits that explore.
        order: ``(E, C)`` random numbers in [0, 1) that order the candidates of the E visits that explore, the largest one first.

    Returns:
        The slots, the best one first; of candidates with equal scores the first ones win.
    """
    K, reserve = auction.slots, auction.reserve_price
    takes_part = can_be_shown & (bids >= reserve)
    weight = np.maximum(ctr.astype(np.float64), _SMALLEST_CTR) ** auction.gamma
    score = np.where(takes_part, weight * bids, -1.0)
    ranked = _best(score, K + 1)
    scores, weights = _at(score, ranked, -1.0), _at(weight, ranked, 1.0)
    prices = np.maximum(reserve, scores[:, 1:] / weights[:, :-1])
    best = np.where(scores[:, :K] >= 0, ranked[:, :K], -1)
    column = best.copy()
    column[explores] = _best(np.where(takes_part[explores], order, -1.0), K)
    is_filled = _at(takes_part, column, False)
    prices[explores] = reserve
    share = auction.exploration
    propensity = (1 - share) * (column == best) + share / np.maximum(takes_part.sum(axis=1), 1)[:, None]
    return Slots(
        np.where(is_filled, column, -1),
        np.where(is_filled, _at(score, column, 0.0), 0.0),
        np.where(is_filled, prices, 0.0),
        np.where(is_filled, propensity, 0.0),
    )


def _at(values: np.ndarray, column: np.ndarray, missing: float | bool) -> np.ndarray:
    """Return the values in some columns, ``(V, n)``; ``missing`` where the column is -1."""
    return np.where(column >= 0, np.take_along_axis(values, np.maximum(column, 0), axis=1), missing)


def _best(score: np.ndarray, count: int) -> np.ndarray:
    """Return the columns of the ``count`` largest values of each row, in order, ``(V, count)``; -1 where the row has fewer.

    Of equal values the first ones are chosen, so that the result does not depend on how numpy partitions.
    """
    size = min(count, score.shape[1])
    threshold = np.partition(score, score.shape[1] - size, axis=1)[:, score.shape[1] - size, None]
    is_above, is_equal = score > threshold, score == threshold
    open_columns = size - is_above.sum(axis=1, keepdims=True)
    is_chosen = is_above | (is_equal & (np.cumsum(is_equal, axis=1, dtype=np.int32) <= open_columns))
    chosen = np.nonzero(is_chosen)[1].reshape(len(score), size)
    order = np.argsort(-np.take_along_axis(score, chosen, axis=1), axis=1, kind="stable")
    found = np.take_along_axis(chosen, order, axis=1)
    return np.pad(found, ((0, 0), (0, count - size)), constant_values=-1)
