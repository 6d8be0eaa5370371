"""Relevance of a user's history to a candidate: time-decayed counts of matching behaviours."""

import numpy as np

from deep_interest.simulation.config import SECONDS_PER_DAY, ClickConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.world import World


def relevance(
    world: World,
    clicks: ClickConfig,
    behaviors: Events,
    impressions: Events,
    *,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return ``f = Σ_j w_j K(j, a) 2^(-(t - time_j) / half_life)`` of each impression over its user's earlier behaviours.

    K is a sum of matches, so f is a weighted sum of decayed counts of behaviours with an equal key (theme, category,
    …). No pairs of behaviours and impressions are formed.

    Args:
        world: catalogue.
        clicks: weights of the matches and the half-life.
        behaviors: behaviours ordered by user and time, shape (N,).
        impressions: impressions in any order, shape (M,).
        weights: weight w_j of each behaviour, shape (N,); 1 if None.

    Returns:
        Relevance f of each impression, float64 (M,).
    """
    behavior_item, candidate = behaviors.item, impressions.item
    category, candidate_category = world.item_category[behavior_item], world.item_category[candidate]
    theme = world.category_theme
    previous_category = _previous_stage(world, candidate_category)
    style = world.style_key(category, world.item_style[behavior_item])
    candidate_style = world.style_key(candidate_category, world.item_style[candidate])
    matches = (
        (clicks.theme_weight, theme[category], theme[candidate_category]),
        (clicks.next_weight, category, previous_category),
        (clicks.category_weight, category, candidate_category),
        (clicks.style_weight, style, candidate_style),
        (clicks.shop_weight, world.item_shop[behavior_item], world.item_shop[candidate]),
    )
    total = np.zeros(len(candidate))
    for weight, key, candidate_key in matches:
        total += weight * decayed_counts(
            behaviors, key, impressions, candidate_key, half_life_days=clicks.half_life_days, weights=weights
        )
    return total


def lasting_log_odds(
    world: World,
    clicks: ClickConfig,
    behaviors: Events,
    impressions: Events,
    *,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the log-odds due to old interests: ``lasting_strength · n / (n + lasting_half_saturation)``.

    n is the weighted number of the user's earlier behaviours in the candidate's category, of any age. An interest that ended long
    ago thus matters again as soon as a candidate of its category is shown, and no recent behaviour shows it.

    Args:
        world, clicks, behaviors, impressions, weights: see `relevance`.

    Returns:
        float64 (M,).
    """
    count = decayed_counts(
        behaviors, world.item_category[behaviors.item], impressions, world.item_category[impressions.item],
        half_life_days=np.inf, weights=weights,
    )  # fmt: skip
    return clicks.lasting_strength * count / (count + clicks.lasting_half_saturation)


def is_related(world: World, behavior_items: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Return whether each behaviour is related to its candidate.

    A behaviour is related if it has the category of the candidate, or the category of the previous stage.

    Args:
        world: catalogue.
        behavior_items: public item ids of the behaviours, shape (P,).
        candidates: public item ids of their candidates, shape (P,).

    Returns:
        bool (P,).
    """
    index = np.empty(len(world.item_id) + 1, np.int64)
    index[world.item_id] = np.arange(len(world.item_id))
    category = world.item_category[index[behavior_items]]
    candidate_category = world.item_category[index[candidates]]
    return (category == candidate_category) | (category == _previous_stage(world, candidate_category))


def _previous_stage(world: World, category: np.ndarray) -> np.ndarray:
    """Return the category of the previous stage on the theme's path; -1 for the first stage."""
    return np.where(world.path_start[world.category_theme[category]] == category, -1, category - 1)


def decayed_counts(
    behaviors: Events,
    key: np.ndarray,
    impressions: Events,
    candidate_key: np.ndarray,
    *,
    half_life_days: float,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Count, for each impression, the user's earlier behaviours with ``key == candidate_key``, weighted by their age.

    Args:
        behaviors: behaviours in any order, shape (N,).
        key: key of each behaviour, an integer from 0, shape (N,).
        impressions: impressions in any order, shape (M,).
        candidate_key: key to count for each impression, shape (M,); a negative key matches nothing.
        half_life_days: age at which a behaviour has half the weight; behaviours at or after the second of the
            impression do not count.
        weights: weight of each behaviour, shape (N,); 1 if None.

    Returns:
        Decayed counts, float64 (M,).
    """
    span = 1 + max(behaviors.second.max(initial=0), impressions.second.max(initial=0))
    keys = 1 + max(key.max(initial=0), candidate_key.max(initial=0))
    sort_key = (behaviors.user * keys + key) * span + behaviors.second
    order = np.argsort(sort_key, kind="stable")
    sort_key, group, second = sort_key[order], sort_key[order] // span, behaviors.second[order]
    rate = 1.0 / (half_life_days * SECONDS_PER_DAY)
    first = np.ones(len(group)) if weights is None else weights[order]
    cumulative = _decayed_cumulative_counts(group, second, rate, first)
    candidate_group = impressions.user * keys + candidate_key
    last = np.searchsorted(sort_key, candidate_group * span + impressions.second, side="left") - 1
    has_match = np.flatnonzero((last >= 0) & (candidate_key >= 0) & (group[last] == candidate_group))
    last, counts = last[has_match], np.zeros(len(candidate_key))
    counts[has_match] = cumulative[last] * np.exp2(-rate * (impressions.second[has_match] - second[last]))
    return counts


def _decayed_cumulative_counts(
    group: np.ndarray, second: np.ndarray, rate: float, weights: np.ndarray
) -> np.ndarray:
    """Return the decayed sum of the weights of a group's events up to each event, shape (N,).

    This is a segmented scan in log2(longest group) steps: after step s an event has the sum over the last 2^s events of
    its group. It never computes increasing powers, so it does not overflow for long logs.
    """
    cumulative, distance = weights.copy(), 1
    while len(same := np.flatnonzero(group[distance:] == group[:-distance])):
        age = second[same + distance] - second[same]
        added = cumulative[same] * np.exp2(-rate * age)
        cumulative[same + distance] += added
        distance *= 2
    return cumulative
