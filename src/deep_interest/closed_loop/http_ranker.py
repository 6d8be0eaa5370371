"""The online ranking service as a ranker of the simulated shop: a request for each visit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import requests

from deep_interest.closed_loop.rankers import VisitBatch
from deep_interest.closed_loop.version_ranker import CONTEXT, clipped
from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import run_offsets
from deep_interest.simulation.visits import history_ends
from deep_interest.simulation.world import make_world

_NEWEST = 1000  # behaviours of a request; the service uses the newest ones that its version was trained with
_TIMEOUT = 30.0
_FIRST_SLOT = 1
_INPUTS = ("items", "user", "bids", "history", "time")  # of every model; the others are context features


@dataclass(frozen=True)
class ServiceArm:
    """An arm that a running service ranks, with the version that serves on each day.

    Attributes:
        url: address of the model in the service, such as ``http://127.0.0.1:8080/v2/models/simulated.din``.
    """

    url: str

    def ranker(self) -> "HttpRanker":
        """Return the ranker of the next day."""
        return HttpRanker(self.url)


class HttpRanker:
    """Ranks each visit by a request to ``/rank``, with the items of the history before the visit in it.

    The service knows neither the time nor the own columns of behaviours in a request, so a version that sees them scores without.

    Args:
        url: see `ServiceArm`.

    Raises:
        InputError: the service cannot be reached, or its version needs a context feature that the shop does not know.
    """

    def __init__(self, url: str) -> None:
        self._rank, self._url = url.partition("/v2/models/")[0] + "/rank", url
        self._session = requests.Session()
        about = self._request("GET", url)
        self.version: str = about["versions"][0]
        self._context = [of["name"] for of in about["inputs"] if of["name"] not in _INPUTS]
        if unknown := [name for name in self._context if name not in CONTEXT]:
            raise InputError(
                f"{url}: version {self.version} needs {', '.join(unknown)}; the context features of the simulated shop are "
                f"{', '.join(CONTEXT)}"
            )

    def scores(self, batch: VisitBatch) -> np.ndarray:
        """Return the predicted CTR of each candidate in the first slot, ``(V, C)``."""
        visits, ids = batch.visits, make_world(batch.config).item_id
        offsets = run_offsets(batch.behaviors.user, len(batch.block.users.ids))
        ends = history_ends(batch.behaviors, visits.user, visits.second)
        found = np.empty(visits.items.shape)
        for row, (user, end) in enumerate(zip(visits.user, ends, strict=True)):
            history = batch.behaviors.item[max(offsets[user], end - _NEWEST) : end]
            context = {"pid": int(visits.pid[row]) + 1, "hour": int(visits.hour[row]), "slot": _FIRST_SLOT}
            body = {
                "user": int(batch.block.users.ids[user]),
                "candidates": [{"item": item} for item in ids[visits.items[row]].tolist()],
                "history": ids[history].tolist(),
                "context": {name: context[name] for name in self._context},
            }
            ctr = {of["item"]: of["ctr"] for of in self._request("POST", self._rank, body)["ranking"]}
            found[row] = [ctr[candidate["item"]] for candidate in body["candidates"]]
        return clipped(found)

    def _request(self, method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            response = self._session.request(method, url, json=body, timeout=_TIMEOUT)
            content: dict[str, Any] = response.json()
        except requests.RequestException as error:
            raise InputError(
                f"{self._url}: the service does not answer ({type(error).__name__}); start it with `deep-interest serve`, or correct "
                "simulation.arms.<arm>.service"
            ) from error
        if response.status_code != requests.codes.ok:
            raise InputError(
                f"{url}: {response.status_code}, {content.get('error', {}).get('message', content)}"
            )
        return content
