"""How much of a user's past speaks for a candidate: decayed counts of matching behaviours."""

import numpy as np

from deep_interest.simulation.config import SECONDS_PER_DAY, ClickConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.world import World


def relevance(world: World, clicks: ClickConfig, behaviors: Events, impressions: Events) -> np.ndarray:
    """Return ``f = Σ_j K(j, a) 2^(-(t - time_j) / half_life)`` of each impression over its user's earlier behaviours.

    K is a sum of matches, so f is a sum of decayed counts of behaviours with an equal key (theme, category, …): no
    pair of behaviour and impression is ever formed.

    Args:
        world: the catalogue.
        clicks: weights of the matches and the half-life.
        behaviors: ordered by user and time, shape (N,).
        impressions: in any order, shape (M,).

    Returns:
        f of each impression, float64 (M,).
    """
    done, shown = behaviors.item, impressions.item
    category, wanted = world.item_category[done], world.item_category[shown]
    theme = world.category_theme
    previous = _stage_before(world, wanted)
    style = world.style_key(category, world.item_style[done])
    wanted_style = world.style_key(wanted, world.item_style[shown])
    matches = (
        (clicks.theme_weight, theme[category], theme[wanted]),
        (clicks.next_weight, category, previous),
        (clicks.category_weight, category, wanted),
        (clicks.style_weight, style, wanted_style),
        (clicks.shop_weight, world.item_shop[done], world.item_shop[shown]),
    )
    total = np.zeros(len(shown))
    for weight, key, wanted_key in matches:
        total += weight * decayed_counts(
            behaviors, key, impressions, wanted_key, half_life_days=clicks.half_life_days
        )
    return total


def related(world: World, done: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Which behaviours are related to a candidate: of its category, or of the stage before it on its theme's path.

    Args:
        world: the catalogue.
        done, shown: public item ids of a behaviour and of its candidate, shape (P,).

    Returns:
        bool (P,).
    """
    index = np.empty(len(world.item_id) + 1, np.int64)
    index[world.item_id] = np.arange(len(world.item_id))
    category, wanted = world.item_category[index[done]], world.item_category[index[shown]]
    return (category == wanted) | (category == _stage_before(world, wanted))


def _stage_before(world: World, category: np.ndarray) -> np.ndarray:
    """The category before each one on its theme's path; -1 where it is the first."""
    return np.where(world.path_start[world.category_theme[category]] == category, -1, category - 1)


def decayed_counts(
    behaviors: Events, key: np.ndarray, impressions: Events, wanted: np.ndarray, *, half_life_days: float
) -> np.ndarray:
    """Count each impression's earlier behaviours of its user with ``key == wanted``, each by its age.

    Args:
        behaviors: (N,), of any order.
        key: what a behaviour is, integers from 0, shape (N,).
        impressions: (M,), of any order.
        wanted: what counts for an impression, shape (M,); a negative number matches nothing.
        half_life_days: a behaviour of this age counts half; one at the impression's own second or later not at all.

    Returns:
        Decayed counts, float64 (M,).
    """
    span = 1 + max(behaviors.second.max(initial=0), impressions.second.max(initial=0))
    keys = 1 + max(key.max(initial=0), wanted.max(initial=0))
    stamp = (behaviors.user * keys + key) * span + behaviors.second
    order = np.argsort(stamp, kind="stable")
    stamp, group, second = stamp[order], stamp[order] // span, behaviors.second[order]
    rate = 1.0 / (half_life_days * SECONDS_PER_DAY)
    running = _decayed_running_counts(group, second, rate)
    wanted_group = impressions.user * keys + wanted
    last = np.searchsorted(stamp, wanted_group * span + impressions.second, side="left") - 1
    found = np.flatnonzero((last >= 0) & (wanted >= 0) & (group[last] == wanted_group))
    last, counts = last[found], np.zeros(len(wanted))
    counts[found] = running[last] * np.exp2(-rate * (impressions.second[found] - second[last]))
    return counts


def _decayed_running_counts(group: np.ndarray, second: np.ndarray, rate: float) -> np.ndarray:
    """Decayed number of a group's events up to each one, shape (N,): a segmented scan in log2(longest group) steps.

    After step s an event holds the sum over the last 2^s events of its group; no sum of growing powers is ever
    formed, so no horizon is too long.
    """
    running, reach = np.ones(len(group)), 1
    while len(same := np.flatnonzero(group[reach:] == group[:-reach])):
        age = second[same + reach] - second[same]
        gain = running[same] * np.exp2(-rate * age)
        running[same + reach] += gain
        reach *= 2
    return running
