"""A world: the shop on a sequence of days, with a ranker for each arm that may learn after each day."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from deep_interest.closed_loop.day import DayOfBlock, Shop, simulate_day
from deep_interest.closed_loop.log import WorldLog
from deep_interest.closed_loop.rankers import Random, Ranker
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.shop_parameters import PhaseParameters
from deep_interest.simulation.visits import ShopBlock, assign_arms, make_block, merge_events

logger = logging.getLogger(__name__)
_BLOCKS_IN_MEMORY = 8


class Arm(Protocol):
    """What ranks for the users of an arm."""

    def ranker(self) -> Ranker:
        """Return the ranker of the next day."""
        ...


class Learner(Protocol):
    """Trains the rankers of all arms."""

    def learn(self, day: int) -> None:
        """Learn from the log up to a day; does nothing if it has done so before."""
        ...


@dataclass(frozen=True)
class Fixed:
    """An arm whose ranker never changes.

    Attributes:
        constant: the ranker.
    """

    constant: Ranker

    def ranker(self) -> Ranker:
        """Return the ranker."""
        return self.constant


class NothingToLearn:
    """Learner of arms whose rankers never change."""

    def learn(self, day: int) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class World:
    """A simulated test.

    Attributes:
        shop: the shop.
        log: its days.
        phases: number of days of warm-up, A/A test and A/B test.
        arms: what ranks in each arm.
        split: planned share of the users by arm, in the order of ``arms``.
        control: arm whose ranker serves all users in the A/A test.
        blocks: numbers of the blocks of users.
    """

    shop: Shop
    log: WorldLog
    phases: PhaseParameters
    arms: Mapping[str, Arm]
    split: Mapping[str, float]
    control: str
    blocks: Sequence[int]

    def run(self, learner: Learner) -> None:
        """Simulate all days that the log lacks, and let the arms learn after each day."""
        clicks: dict[int, Events] | None = None
        for day in range(self.phases.total):
            begin, is_new = time.perf_counter(), not self.log.has(day)
            if is_new:
                if clicks is None:
                    clicks = {
                        block: self.log.clicks(day, block_of(self.shop.config, block))
                        for block in self.blocks
                    }
                self.log.write(day, self._day(day, clicks), list(self.arms))
            ranked = time.perf_counter()
            if day + 1 < self.phases.total:
                learner.learn(day)
            if is_new:
                logger.info(
                    "%s: %s, ranking and clicks %.1f s, learning %.1f s", self.log.folder.name, self.log.name(day), ranked - begin,
                    time.perf_counter() - ranked,
                )  # fmt: skip

    def _day(self, day: int, clicks: dict[int, Events]) -> Iterator[tuple[ShopBlock, DayOfBlock]]:
        shop, rankers = self.shop, self._rankers(day)
        if day < self.phases.warm_up:
            shop = Shop(shop.config, shop.traffic, shop.auction.model_copy(update={"exploration": 1.0}))
        for number in self.blocks:
            block = block_of(shop.config, number)
            arms = self.arms_of(block.users.ids)
            found = simulate_day(shop, block, clicks[number], day, arms, rankers)
            clicks[number] = merge_events(clicks[number], found.clicks)
            yield block, found

    def arms_of(self, users: np.ndarray) -> np.ndarray:
        """Return the index of the arm of each user."""
        return assign_arms(users, self.split, self.shop.config.seed)

    def _rankers(self, day: int) -> list[Ranker]:
        if day < self.phases.warm_up:
            return [Random()] * len(self.arms)
        if day < self.phases.warm_up + self.phases.aa:
            return [self.arms[self.control].ranker()] * len(self.arms)
        return [arm.ranker() for arm in self.arms.values()]


@lru_cache(maxsize=_BLOCKS_IN_MEMORY)
def block_of(config: SimulationConfig, block: int) -> ShopBlock:
    """Return a block of users; some blocks are kept in memory."""
    return make_block(config, block)
