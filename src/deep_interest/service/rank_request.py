"""Bodies of ranking requests as columns: pydantic checks a body with hundreds of candidates more slowly than the models score some of them."""

from typing import Any, NamedTuple

import numpy as np
import orjson
from pydantic import ValidationError

from deep_interest.service.http import parse
from deep_interest.service.schemas import (
    LARGEST_BID,
    LARGEST_INTEGER,
    LONGEST_STRING,
    RankOptions,
    RankRequest,
)
from deep_interest.serving.events import Id
from deep_interest.serving.ranker import RankingRequest


class Ranked(NamedTuple):
    """A valid ranking request.

    Attributes:
        options: everything but the candidates.
        items: ids of the C candidates.
        bids: ``(C,)`` float64 bids.
    """

    options: RankOptions
    items: list[Id]
    bids: np.ndarray

    @classmethod
    def of(cls, request: RankRequest) -> "Ranked":
        """Return the columns of a request."""
        candidates = request.candidates
        return cls(request, [of.item for of in candidates], np.array([of.bid for of in candidates]))

    def ranking_request(self) -> RankingRequest:
        """Return the request in the form of the ranker."""
        options = self.options
        return RankingRequest(
            options.user, self.items, self.bids, options.context, options.history, options.time, options.gamma
        )

    def as_json(self) -> dict[str, Any]:
        """Return the request as it came, with the defaults."""
        pairs = zip(self.items, self.bids.tolist(), strict=True)
        candidates = [{"item": item, "bid": bid} for item, bid in pairs]
        options = self.options.model_dump(exclude_none=True, exclude={"candidates"})
        return options | {"candidates": candidates}


def parse_ranked(body: bytes) -> Ranked:
    """Validate the body of a ranking request.

    Candidates of the usual form are checked as columns. Everything else, and thus every error, is left to `schemas.RankRequest`.

    Raises:
        RequestError: it is not JSON, or a field is missing, unknown or invalid.
    """
    return _parse_usual(body) or Ranked.of(parse(RankRequest, body))


def _parse_usual(body: bytes) -> Ranked | None:
    try:
        block = orjson.loads(body)
        columns = _columns(block.pop("candidates"))
        return None if columns is None else Ranked(RankOptions.model_validate(block), *columns)
    except (ValueError, ValidationError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def _columns(candidates: list[dict[str, Any]]) -> tuple[list[Id], np.ndarray] | None:
    """Return items and bids; None if one of them is perhaps not valid."""
    if type(candidates) is not list or not candidates:
        return None
    items, fields = [of["item"] for of in candidates], sum(map(len, candidates))
    if fields == 2 * len(items):
        bids = [of["bid"] for of in candidates]
    elif fields == len(items):
        bids = [1.0] * len(items)
    else:
        return None
    kinds = set(map(type, items))
    if kinds == {int}:
        valid = min(items) >= -LARGEST_INTEGER - 1 and max(items) <= LARGEST_INTEGER
    else:
        valid = kinds == {str} and max(map(len, items)) <= LONGEST_STRING
    if not valid or not {int, float}.issuperset(map(type, bids)):
        return None
    array = np.array(bids, np.float64)
    return (items, array) if 0 < array.min() and array.max() <= LARGEST_BID else None
