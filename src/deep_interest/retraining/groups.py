"""Metrics of groups of the held-out impressions: for whom a version works."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.significance import CHANCE, chance_interval

LENGTHS = (0, 1, 5, 20, 100)
"""First length of each group of histories."""
FEWEST_USERS = 10  # with both classes, for a GAUC of a group


@dataclass(frozen=True)
class Group:
    """A group of impressions.

    Attributes:
        name: which impressions, such as "5 to 19 behaviours".
        samples, users: number of impressions, and of users with both classes among them.
        gauc, low, high: GAUC with its 95 % interval over users; NaN with fewer than 10 such users.
        calibration: ratio of mean predicted CTR to observed CTR; NaN without a click.
    """

    name: str
    samples: int
    users: int
    gauc: float
    low: float
    high: float
    calibration: float


def by_history_length(
    users: ArrayLike,
    labels: ArrayLike,
    scores: ArrayLike,
    lengths: ArrayLike,
    *,
    weights: ArrayLike | None = None,
) -> tuple[Group, ...]:
    """Return the metrics by length of the history; groups without impressions are left out.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        scores: ``(n,)`` predicted CTR.
        lengths: ``(n,)`` number of behaviours in the history.
        weights: ``(n,)`` weights in the calibration, at least 0; equal if left out.
    """
    users, labels, scores = (np.asarray(values) for values in (users, labels, scores))
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights)
    names, codes = length_groups(lengths)
    groups = []
    for code, name in names.items():
        chosen = codes == code
        if chosen.any():
            groups.append(_group(name, users[chosen], labels[chosen], scores[chosen], weights[chosen]))
    return tuple(groups)


def length_groups(lengths: ArrayLike) -> tuple[dict[int, str], np.ndarray]:
    """Return the names of the groups by code, and the group of each history ``(n,)`` by its number of behaviours."""
    bounds = zip(LENGTHS, (*LENGTHS[1:], None), strict=True)
    names = {code: _name(low, following) for code, (low, following) in enumerate(bounds)}
    return names, np.searchsorted(LENGTHS, np.asarray(lengths), side="right") - 1


def _name(low: int, following: int | None) -> str:
    if low == 0:
        return "no behaviour"
    return f"{low} or more behaviours" if following is None else f"{low} to {following - 1} behaviours"


def _group(
    name: str, users: np.ndarray, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray
) -> Group:
    by_user, clicked = per_user_auc(users, labels, scores), float(weights @ labels)
    gauc = low = high = np.nan
    if len(by_user.users) >= FEWEST_USERS:
        interval = chance_interval(by_user)
        gauc, low, high = (CHANCE + value for value in (interval.difference, interval.low, interval.high))
    calibration = float(weights @ scores) / clicked if clicked else np.nan
    return Group(name, len(labels), len(by_user.users), gauc, low, high, calibration)
