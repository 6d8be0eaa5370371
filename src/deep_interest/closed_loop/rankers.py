"""Rankers of the simulated shop that need no training: the oracle, popularity and random scores."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from deep_interest.simulation.clicks import sigmoid
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.truth import true_log_odds
from deep_interest.simulation.visits import DayVisits, Draw, ShopBlock, uniforms
from deep_interest.simulation.world import make_world

_HALF = 2.0**-54  # keeps uniforms away from 0, whose normal quantile is infinite


@dataclass(frozen=True)
class VisitBatch:
    """Visits to rank, with everything that is known before them.

    Attributes:
        config: parameters of the simulation.
        block: the users.
        behaviors: behaviours of these users, ordered by user and time, with clicks in earlier visits. Those at or after the time of a visit
            are not known yet: a ranker must not use them.
        visits: the visits, at most one of each user, ordered by user.
    """

    config: SimulationConfig
    block: ShopBlock
    behaviors: Events
    visits: DayVisits

    @cached_property
    def log_odds(self) -> np.ndarray:
        """``(V, C)`` true log-odds of a click in a slot that is looked at; only the oracle and the draw of clicks may use them."""
        return true_log_odds(self.config, self.block, self.behaviors, self.visits)

    @cached_property
    def probability(self) -> np.ndarray:
        """``(V, C)`` true probability of a click in a slot that is looked at."""
        return sigmoid(self.log_odds)

    @property
    def user_ids(self) -> np.ndarray:
        """``(V,)`` public id of the user."""
        return self.block.users.ids[self.visits.user]

    def uniforms(self, draw: Draw) -> np.ndarray:
        """Return a uniform number for each candidate ``(V, C)`` that depends on the user, the time of the visit and the item."""
        visits, C = self.visits, self.visits.items.shape[1]
        user, second = np.repeat(self.user_ids, C), np.repeat(visits.second, C)
        return uniforms(self.config.seed, draw, user, second, visits.items.ravel()).reshape(-1, C)

    def part(self, rows: np.ndarray) -> "VisitBatch":
        """Return some of the visits."""
        found = VisitBatch(self.config, self.block, self.behaviors, self.visits.part(rows))
        if "log_odds" in self.__dict__:
            found.__dict__["log_odds"] = self.log_odds[rows]
        return found


class Ranker(Protocol):
    """Predicts click probabilities."""

    @property
    def version(self) -> str:
        """Name for the log."""
        ...

    def scores(self, batch: VisitBatch) -> np.ndarray:
        """Return the predicted probability of a click on each candidate, ``(V, C)``, in (0, 1)."""
        ...


@dataclass(frozen=True)
class Oracle:
    """Ranks by the true click probability, with noise.

    Attributes:
        noise: standard deviation of the normal noise on the log-odds of each candidate in each visit.
        version: name for the log.
    """

    noise: float = 0.0
    version: str = "oracle"

    def scores(self, batch: VisitBatch) -> np.ndarray:
        """Return the true click probabilities with noise."""
        if not self.noise:
            return batch.probability
        normal = ndtri(np.maximum(batch.uniforms(Draw.NOISE), _HALF))
        return sigmoid(batch.log_odds + self.noise * normal)


@dataclass(frozen=True)
class Popularity:
    """Ranks by the number of behaviours of an item before the first day with impressions, as a share of the most popular item.

    Attributes:
        share: ``(I,)`` number of behaviours of each item in the `World`, divided by the largest.
        version: name for the log.
    """

    share: np.ndarray
    version: str = "popularity"

    @classmethod
    def of(cls, config: SimulationConfig, block: ShopBlock) -> "Popularity":
        """Count the behaviours of a block before the first day with impressions."""
        before = block.organic.second < config.behavior_days * 86_400
        counts = 1 + np.bincount(block.organic.item[before], minlength=len(make_world(config).item_id))
        return cls(counts / (1 + counts.max()))

    def scores(self, batch: VisitBatch) -> np.ndarray:
        """Return the shares of the candidates."""
        return self.share[batch.visits.items]


@dataclass(frozen=True)
class Random:
    """Gives each candidate in each visit a random score.

    Attributes:
        version: name for the log.
    """

    version: str = "random"

    def scores(self, batch: VisitBatch) -> np.ndarray:
        """Return uniform numbers."""
        return np.maximum(batch.uniforms(Draw.RANDOM), _HALF)
