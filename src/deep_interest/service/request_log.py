"""Log of what was served: the features and the scores of each ranking, as lines of JSON."""

import os
import threading
import time
from pathlib import Path
from typing import IO, Any

import orjson
from torch import Tensor

from deep_interest.service.schemas import RankRequest
from deep_interest.serving.ranker import Features, Ranker, Ranking


class RequestLog:
    """Appends rankings to a file of the worker, ``requests.<start>-<process>.jsonl``.

    Each line has ``request_id``, ``version``, ``precision``, ``last_day``, the request as it came, ``features`` (codes by group and field), ``ctr``, and for a
    shadow its ``version`` and ``ctr``.

    Args:
        folder: folder of the log.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file: IO[bytes] = (folder / f"requests.{int(time.time())}-{os.getpid()}.jsonl").open("ab")

    def write(
        self, request_id: str, request: RankRequest, ranker: Ranker, ranking: Ranking, shadow: Ranker | None
    ) -> None:
        """Append a ranking; a shadow scores it as well."""
        entry: dict[str, Any] = {
            "request_id": request_id, "version": ranker.version, "precision": ranker.precision.model_dump(), "last_day": ranker.facts.last_day,
            "request": request.model_dump(exclude_none=True), "features": features_json(ranking.features),
            "ctr": ranking.ctr.tolist(),
        }  # fmt: skip
        if shadow is not None:
            scored = shadow.rank(request.ranking_request())
            entry["shadow"] = {"version": shadow.version, "ctr": scored.ctr.tolist()}
        with self._lock:
            self._file.write(orjson.dumps(entry) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
