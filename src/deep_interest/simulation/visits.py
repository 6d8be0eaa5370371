"""Visits of a day and their candidates, which do not depend on what is shown.

Everything that happens to a user before a ranker decides is drawn from generators of the user's block and the day. What follows a decision
(whether a user looks at a slot and clicks) is a hash of the user, the time of the visit and the item. So the same item in the same slot of
the same visit gets the same click under every ranker, and rankers are compared with common random numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from deep_interest.logs.hashing import Purpose, hash64
from deep_interest.simulation.behaviors import make_behaviors
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.events import Events, draw_visits
from deep_interest.simulation.impressions import draw_candidates
from deep_interest.simulation.interests import Interests, make_interests
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.shop_parameters import AuctionParameters, TrafficParameters
from deep_interest.simulation.users import Users, make_users
from deep_interest.simulation.world import PIDS, make_world

_PAUSE = 60  # seconds between two visits of a user, and from the last visit to midnight: behind the clicks of a visit
_LARGEST = 2.0**-53


class Draw(IntEnum):
    """What a hash decides; the first key after the seed."""

    ARM = 1
    """Arm of a user; key: user."""
    CLICK = 2
    """Whether a user clicks; keys: user, second of the visit, item."""
    EXPLORE = 3
    """Whether a visit explores; keys: user, second of the visit."""
    ORDER = 4
    """Order of the candidates of a visit that explores; keys: user, second of the visit, item."""
    NOISE = 5
    """Noise of an oracle; keys: user, second of the visit, item."""
    RANDOM = 6
    """Score of the random ranker; keys: user, second of the visit, item."""
    TRAINING = 7
    """Whether an impression without a click is in the training log; keys: user, time, item."""


def uniforms(seed: int, draw: Draw, *keys: np.ndarray | int) -> np.ndarray:
    """Return a uniform number in [0, 1) for each row of the keys, see `logs.hashing.hash64`; the same keys give the same number."""
    return (hash64(seed, Purpose.SIMULATION, int(draw), *keys) >> np.uint64(11)).astype(np.float64) * _LARGEST


def assign_arms(users: np.ndarray, split: Mapping[str, float], seed: int) -> np.ndarray:
    """Return the index of the arm of each user, by a hash of the user, so that users keep their arms.

    Args:
        users: ``(n,)`` ids.
        split: share of the users by arm, in any unit.
        seed: seed of the assignment.
    """
    bounds = np.cumsum(list(split.values()))
    return np.searchsorted(bounds[:-1] / bounds[-1], uniforms(seed, Draw.ARM, users), side="right")


@dataclass(frozen=True)
class ShopBlock:
    """A block of users, with everything that does not depend on a ranker.

    Attributes:
        number: number of the block.
        users: the users.
        interests: their interests.
        organic: their behaviours apart from clicks in visits, ordered by user and time.
    """

    number: int
    users: Users
    interests: Interests
    organic: Events


def make_block(config: SimulationConfig, block: int) -> ShopBlock:
    """Generate a block of users."""
    world, users = make_world(config), make_users(config, block)
    interests = make_interests(config, world, users, block)
    return ShopBlock(block, users, interests, make_behaviors(config, world, users, interests, block))


@dataclass(frozen=True)
class DayVisits:
    """Visits of a block of users on a day, ordered by user and time.

    Attributes:
        user: ``(V,)`` index of the user in the block.
        second: ``(V,)`` seconds since the start of the first day; a user's visits are at least a minute apart.
        pid: ``(V,)`` index of the placement.
        round: ``(V,)`` number of earlier visits of the user on the day.
        items: ``(V, C)`` index of the candidates in the `World`.
        is_first: ``(V, C)`` whether a candidate is not a repetition of an earlier one in the visit.
    """

    user: np.ndarray
    second: np.ndarray
    pid: np.ndarray
    round: np.ndarray
    items: np.ndarray
    is_first: np.ndarray

    def __len__(self) -> int:
        return len(self.user)

    @property
    def hour(self) -> np.ndarray:
        """``(V,)`` hour of the day."""
        return self.second % SECONDS_PER_DAY // 3600

    def part(self, rows: np.ndarray) -> "DayVisits":
        """Return some of the visits."""
        return DayVisits(
            self.user[rows], self.second[rows], self.pid[rows], self.round[rows], self.items[rows], self.is_first[rows]
        )  # fmt: skip


def draw_day(config: SimulationConfig, block: ShopBlock, traffic: TrafficParameters, day: int) -> DayVisits:
    """Draw the visits of a block on a day, and their candidates.

    Args:
        config: parameters of the simulation.
        block: users and interests.
        traffic: number of visits and candidates.
        day: day, from 0 on the first day with impressions.
    """
    rng, world, C = (
        generator(config.seed, "visits", block.number, day),
        make_world(config),
        traffic.candidates,
    )
    counts = rng.poisson(traffic.visits * block.users.activity)
    number = config.behavior_days + day
    drawn = draw_visits(counts, range(number, number + 1), rng)
    order = np.lexsort((drawn.second, drawn.user))
    user, second = drawn.user[order], drawn.second[order]
    apart = np.ones(len(user), bool)
    apart[1:] = (np.diff(user) > 0) | (np.diff(second) >= _PAUSE)
    kept = apart & (second % SECONDS_PER_DAY < SECONDS_PER_DAY - _PAUSE)
    user, second = user[kept], second[kept]
    first = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(counts)))])
    items = draw_candidates(
        config, world, block.interests, np.repeat(user, C), np.repeat(second, C), rng
    ).reshape(len(user), C)
    return DayVisits(
        user, second, rng.integers(PIDS, size=len(user)), np.arange(len(user)) - first[user], items,
        _is_first(items),
    )  # fmt: skip


def _is_first(items: np.ndarray) -> np.ndarray:
    order = np.argsort(items, axis=1, kind="stable")
    ordered = np.take_along_axis(items, order, axis=1)
    found = np.ones(items.shape, bool)
    found[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    result = np.empty_like(found)
    np.put_along_axis(result, order, found, axis=1)
    return result


def bids_of_day(config: SimulationConfig, auction: AuctionParameters, day: int) -> np.ndarray:
    """Return the bid of each item for a click on a day, ``(I,)``: log-normal, with small changes from day to day."""
    lasting = generator(config.seed, "bids", 0).standard_normal(config.items)
    daily = generator(config.seed, "bids", 1, day).standard_normal(config.items)
    return auction.median_bid * np.exp(auction.bid_spread * lasting + auction.daily_spread * daily)


def merge_events(first: Events, second: Events) -> Events:
    """Insert the events of ``second`` into those of ``first``, both ordered by user and time; at equal times they come after."""
    if not len(second.user):
        return first
    own, other = _keys(first, second)
    position = np.searchsorted(own, other, side="right")
    return Events(
        np.insert(first.user, position, second.user),
        np.insert(first.item, position, second.item),
        np.insert(first.second, position, second.second),
    )


def _keys(*events: Events) -> list[np.ndarray]:
    """Return a number for each event that orders all of them by user and time."""
    span = 1 + max(int(of.second.max(initial=0)) for of in events)
    return [of.user * span + of.second for of in events]


def history_ends(events: Events, user: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the number of events before each ``user`` and ``second`` (n,), counted from the first event of the first user.

    Args:
        events: events ordered by user and time.
        user, second: index of the user, and time; events at the same time do not count.
    """
    visits = Events(user, user, second)
    own, wanted = _keys(events, visits)
    return np.searchsorted(own, wanted, side="left")
