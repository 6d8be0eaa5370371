"""Events of users with items, and the visits in which they happen."""

from dataclasses import dataclass

import numpy as np

from deep_interest.simulation.config import SECONDS_PER_DAY, ActionConfig

ACTIONS = ("view", "cart", "purchase")
_HOURLY_ACTIVITY = np.array([3, 2, 1, 1, 1, 1, 2, 3, 4, 5, 6, 6, 7, 6, 6, 6, 6, 6, 7, 9, 11, 12, 9, 6], float)
_HOUR_CUMULATIVE = np.cumsum(_HOURLY_ACTIVITY) / _HOURLY_ACTIVITY.sum()


@dataclass(frozen=True)
class Events:
    """Behaviours or impressions of a block of users, ordered by user and time; all arrays of shape (k,).

    Attributes:
        user: index of the user in the block.
        item: index of the item in the `World`.
        second: seconds since the start of the first day.
    """

    user: np.ndarray
    item: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Behaviors(Events):
    """Behaviours, with what happened in them if the simulation has actions.

    Attributes:
        action: index into `ACTIONS`; None without actions.
        dwell: dwell time in seconds; None without actions.
    """

    action: np.ndarray | None = None
    dwell: np.ndarray | None = None

    def weights(self, actions: ActionConfig | None) -> np.ndarray | None:
        """Return how much each behaviour counts in the relevance of a history, (k,); None if all count alike."""
        if actions is None or self.action is None or self.dwell is None:
            return None
        of_action = np.array([actions.view_weight, actions.cart_weight, actions.purchase_weight])
        return of_action[self.action] * self.dwell / (self.dwell + actions.half_dwell)


def draw_actions(events: Events, actions: ActionConfig, rng: np.random.Generator) -> Behaviors:
    """Draw what happens in each behaviour."""
    count = len(events.user)
    bounds = np.cumsum([1 - actions.cart_share - actions.purchase_share, actions.cart_share])
    action = np.searchsorted(bounds, rng.random(count), side="right")
    dwell = actions.median_dwell * np.exp(actions.dwell_spread * rng.standard_normal(count))
    return Behaviors(events.user, events.item, events.second, action, dwell.round(1).clip(0.1))


@dataclass(frozen=True)
class Visits:
    """Visits of a block of n users, ordered by user.

    Attributes:
        user: index of the user in the block, shape (V,).
        second: start in seconds since the start of the first day, shape (V,).
        first: offsets; the visits of user u are ``first[u]:first[u + 1]``, shape (n + 1,).
    """

    user: np.ndarray
    second: np.ndarray
    first: np.ndarray


def draw_visits(counts: np.ndarray, days: range, rng: np.random.Generator) -> Visits:
    """Draw the visits of users.

    Args:
        counts: number of visits per user, shape (n,).
        days: days to draw from uniformly; the hour follows the usual activity over a day.
        rng: random number generator.
    """
    total = int(counts.sum())
    hour = np.searchsorted(_HOUR_CUMULATIVE, rng.random(total), side="right")
    day = rng.integers(days.start, days.stop, size=total)
    return Visits(
        user=np.repeat(np.arange(len(counts)), counts),
        second=day * SECONDS_PER_DAY + hour * 3600 + rng.integers(3600, size=total),
        first=np.concatenate([[0], np.cumsum(counts)]),
    )
