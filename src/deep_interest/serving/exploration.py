"""Exploration: what is shown is partly random, with a known probability, so that a log can answer for other versions (`offpolicy`)."""

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from deep_interest.errors import InputError
from deep_interest.offpolicy.plackett_luce import sample_order, slot_probabilities

if TYPE_CHECKING:  # the supervisor reads settings without importing torch
    from deep_interest.serving.ranking import Ranking

LARGEST_SLOTS = 50  # slots with a propensity when sampling: its cost grows with the square of their number


class Exploration(BaseModel):
    """How the order of candidates is drawn.

    Attributes:
        epsilon: share of the requests whose candidates are in uniformly random order; the others are ordered by eCPM.
        softmax: temperature in the unit of eCPM: the first slot is drawn from ``softmax(eCPM / temperature)``, each further one in the same way
            from the candidates that are left.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    epsilon: float | None = Field(None, gt=0, le=1)
    softmax: float | None = Field(None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _validate_kind(self) -> "Exploration":
        if (self.epsilon is None) == (self.softmax is None):
            raise ValueError("set epsilon or softmax")
        return self

    @classmethod
    def parse(cls, option: str) -> "Exploration":
        """Return the exploration that the option of ``deep-interest serve`` names.

        Raises:
            InputError: it is not ``epsilon=SHARE`` with a share above 0 and at most 1, or ``softmax=TEMPERATURE`` with a temperature above 0.
        """
        kind, _, value = option.partition("=")
        try:
            return cls.model_validate({kind: float(value)})
        except ValueError as error:
            raise InputError(
                f"--explore: found {option}, expected epsilon=SHARE with a share above 0 and at most 1, such as epsilon=0.05, or "
                "softmax=TEMPERATURE with a temperature above 0"
            ) from error

    def explore(self, ranking: "Ranking", request_id: str, slots: int) -> "Ranking":
        """Return a ranking with a drawn order and its propensities; the same request id gives the same order.

        Args:
            ranking: scored candidates.
            request_id: id of the request, the seed.
            slots: number of slots that are shown.
        """
        random = np.random.default_rng(
            int.from_bytes(hashlib.blake2b(request_id.encode(), digest_size=16).digest(), "big")
        )
        if self.epsilon is not None:
            return _epsilon_greedy(ranking, self.epsilon, slots, random)
        assert self.softmax is not None
        drawn = sample_order(ranking.ecpm, self.softmax, random)
        shown = drawn[: min(slots, LARGEST_SLOTS)]
        probability = slot_probabilities(ranking.ecpm, self.softmax, len(shown), shown)
        return replace(ranking, order=drawn, propensity=np.diagonal(probability))


def _epsilon_greedy(ranking: "Ranking", epsilon: float, slots: int, random: np.random.Generator) -> "Ranking":
    size = len(ranking.order)
    drawn = random.permutation(size) if random.random() < epsilon else ranking.order
    is_best = drawn[:slots] == ranking.order[:slots]
    return replace(ranking, order=drawn, propensity=(1 - epsilon) * is_best + epsilon / size)
