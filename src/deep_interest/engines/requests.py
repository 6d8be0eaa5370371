"""Requests: impressions of a user that were shown together."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from deep_interest.engines.engine import Engine
from deep_interest.logs.impressions import list_hashes, requests_of
from deep_interest.logs.negatives import list_negatives
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import TRAIN


@dataclass(frozen=True)
class RequestNumbers:
    """Numbers of the requests in the order of their users and ids, as `requests_of` gives them for the whole table.

    Attributes:
        first: number of the first request of each user code, ``(U + 1,)`` int64.
    """

    first: np.ndarray

    def of(self, impressions: pa.Table) -> np.ndarray:
        """Return the number of the request of each impression of a partition, ``(n,)`` int64."""
        frame = impressions.select(["user", "request"]).to_pandas()
        within = requests_of(frame, by_content=True)
        user = frame["user"].to_numpy()
        smallest = pd.Series(within).groupby(user).transform("min").to_numpy()
        return self.first[user] + within - smallest


@dataclass(frozen=True)
class KeepListNegatives:
    """Keep for each training click a few of the other impressions of its request.

    Attributes:
        requests: numbers of the requests.
        per_click: negatives of a click.
        seed: seed of the protocol.
    """

    requests: RequestNumbers
    per_click: int
    seed: int

    def __call__(self, seen: pa.Table) -> pa.Table:
        """Return the kept impressions of a partition."""
        frame = seen.select(["item", "label", "time"]).to_pandas()
        numbers = self.requests.of(seen)
        within = np.unique(numbers, return_inverse=True)[1]
        kept = list_negatives(
            within, frame["label"].to_numpy(), seen["split"].to_numpy() == TRAIN, self.per_click,
            draws=list_hashes(frame["item"].to_numpy(), frame["label"].to_numpy(), frame["time"].to_numpy(), numbers, self.seed),
        )  # fmt: skip
        return seen.filter(pa.array(kept))


def request_numbers(engine: Engine, name: str) -> RequestNumbers:
    """Return the numbers of the requests of a stored table."""
    stored = engine.stored(name)
    counts = engine.collect(stored.group_by("user").aggregate(requests=stored["request"].nunique()))
    user = counts["user"].to_numpy()
    requests = np.zeros(int(user.max(initial=0)) + 1, np.int64)
    requests[user] = counts["requests"].to_numpy()
    return RequestNumbers(np.cumsum(requests) - requests)


def keep_list_negatives(
    engine: Engine, name: str, target: str, protocol: ProtocolParameters
) -> dict[str, int]:
    """Store the impressions that ``protocol.list_negatives`` keeps, and return the number of the others by reason."""
    assert protocol.list_negatives is not None
    before = engine.stored(name)
    schema = before.drop("partition").schema().to_pyarrow()
    keep = KeepListNegatives(request_numbers(engine, name), protocol.list_negatives, protocol.seed)
    engine.store_mapped(target, keep, name, schema)
    rows = [engine.collect(table.count()).as_py() for table in (before, engine.stored(target))]
    reason = f"training impressions that are not among the negatives of a click (protocol.list_negatives: {protocol.list_negatives})"
    return {reason: rows[0] - rows[1]}
