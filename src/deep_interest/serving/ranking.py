"""A ranking request, what a model sees of it, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from deep_interest.serving.events import Id


@dataclass(frozen=True)
class RankingRequest:
    """Candidates to rank for a user.

    Attributes:
        user: id of the user; None for a user without an id.
        items: ids of the C candidates.
        bids: ``(C,)`` float64 bids, above 0; all 1 if None.
        context: value of each context feature: one for all candidates, or a list with one per candidate.
        history: ids of the items of the user's behaviours, from oldest to newest; those of the log and the events if None.
        time: time of the request in the unit of the log; one unit after the newest known behaviour if None.
        gamma: exponent γ of eCPM = CTR^γ × bid (DIEN, footnote 4).
    """

    user: Id | None
    items: list[Id]
    bids: np.ndarray | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    history: list[Id] | None = None
    time: int | None = None
    gamma: float = 1.0


@dataclass(frozen=True)
class Features:
    """A request in the codes of a version: what the model sees.

    Attributes:
        history: ``{field: (T,)}`` codes of the behaviours.
        candidates: ``{field: (C,)}`` codes.
        profile: ``{field: (1,)}`` codes.
        context: ``{field: (C,)}`` codes.
        value_sets: value sets of multi-hot fields.
        unknown_user: whether the user is in neither the log nor the events.
        unknown_items: number of candidates that are not in the catalogue.
    """

    history: dict[str, Tensor]
    candidates: dict[str, Tensor]
    profile: dict[str, Tensor]
    context: dict[str, Tensor]
    value_sets: Mapping[str, Any]
    unknown_user: bool
    unknown_items: int

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(next(iter(self.candidates.values())))


@dataclass(frozen=True)
class Ranking:
    """Scored candidates.

    Attributes:
        ctr: ``(C,)`` click probabilities, in the order of the request; float32, or float64 if the version is calibrated.
        ecpm: ``(C,)`` float64, CTR^γ × bid.
        order: ``(C,)`` indices of the candidates by descending eCPM, of equal ones the first come first; with exploration as drawn.
        features: what the model has seen.
        propensity: ``(K,)`` probability with which each of the first K candidates of ``order`` is in its slot; None without exploration.
    """

    ctr: np.ndarray
    ecpm: np.ndarray
    order: np.ndarray
    features: Features
    propensity: np.ndarray | None = None


def order(request: RankingRequest, features: Features, ctr: np.ndarray) -> Ranking:
    """Order scored candidates by CTR^γ × bid.

    Args:
        request: the request.
        features: its features.
        ctr: ``(C,)`` click probabilities.
    """
    bids = 1.0 if request.bids is None else request.bids
    ecpm = ctr.astype(np.float64) ** request.gamma * bids
    return Ranking(ctr, ecpm, np.argsort(-ecpm, kind="stable"), features)


def features_json(features: Features) -> dict[str, Any]:
    """Return the codes of a request by group and field."""
    groups: dict[str, dict[str, Tensor]] = {
        "history": features.history, "candidates": features.candidates, "profile": features.profile,
        "context": features.context,
    }  # fmt: skip
    found: dict[str, Any] = {
        group: {name: codes.tolist() for name, codes in fields.items()} for group, fields in groups.items()
    }
    found["value_sets"] = {
        name: {"offsets": of.offsets.tolist(), "values": of.values.tolist()}
        for name, of in features.value_sets.items()
    }
    return found
