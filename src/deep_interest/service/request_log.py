"""Log of what was served: the features and the scores of each ranking, as lines of JSON."""

import os
import threading
import time
from pathlib import Path
from typing import IO, Any

import orjson

from deep_interest.service.rank_request import Ranked
from deep_interest.serving.ranker import Ranker, Ranking
from deep_interest.serving.ranking import features_json


class RequestLog:
    """Appends rankings to a file of the worker, ``requests.<start>-<process>.jsonl``.

    Each line has ``request_id``, ``time`` (seconds since the epoch), ``version``, ``precision``, ``last_day``, the request as it came,
    ``features`` (codes by group and field), ``ctr``, with exploration ``shown`` (indices of the candidates in the slots) and their
    ``propensity``, and for a shadow its ``version`` and ``ctr``.

    Args:
        folder: folder of the log.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file: IO[bytes] = (folder / f"requests.{int(time.time())}-{os.getpid()}.jsonl").open("ab")

    def write(
        self, request_id: str, request: Ranked, ranker: Ranker, ranking: Ranking, shadow: Ranker | None
    ) -> None:
        """Append a ranking; a shadow scores it as well."""
        entry: dict[str, Any] = {
            "request_id": request_id, "time": time.time(), "version": ranker.version, "precision": ranker.precision.model_dump(),
            "last_day": ranker.facts.last_day,
            "request": request.as_json(), "features": features_json(ranking.features),
            "ctr": ranking.ctr.tolist(),
        }  # fmt: skip
        if ranking.propensity is not None:
            entry["shown"] = ranking.order[: len(ranking.propensity)].tolist()
            entry["propensity"] = ranking.propensity.tolist()
        if shadow is not None:
            scored = shadow.rank(request.ranking_request())
            entry["shadow"] = {"version": shadow.version, "ctr": scored.ctr.tolist()}
        with self._lock:
            self._file.write(orjson.dumps(entry) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
