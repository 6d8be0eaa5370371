"""The parity check of the gate: the service must give the same scores as batch scoring to requests that it has logged.

The scores that the champion has served are compared with its batch scores. The challenger answers the same requests in the way the service
would, by a snapshot and its ranker, and is compared with its own batch scores: from the features of each request, and, where the request
has no history and no time of its own, from the log.
"""

import heapq
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.retraining.gate import Check
from deep_interest.retraining.parity import TOLERANCE, Served, compare_served, read_request_log
from deep_interest.retraining.scoring import CurrentLog, encode_current_log
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.ranker import Ranker
from deep_interest.serving.ranking import Features, RankingRequest, features_json
from deep_interest.serving.snapshot import SnapshotFacts, save_snapshot
from deep_interest.serving.version import Version
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict

_FACTORS = (1, 2, 4, 8)
"""How many times the required number of requests is read, until the challenger can score enough of them; bounds the memory."""


@dataclass(frozen=True)
class CurrentVersion:
    """A version with the log of the current days, as the service and batch scoring use it.

    Attributes:
        version: the version.
        tables: tables of the current days.
        columns: feature columns.
    """

    version: Version
    tables: CanonicalTables
    columns: FeatureColumns

    @cached_property
    def log(self) -> CurrentLog:
        """The log in the codes of the version."""
        context = {name: self.tables.shown[name].head(1) for name in self.columns.context}
        return encode_current_log(self.tables, self.columns, self.version, context)

    @property
    def encoder(self) -> Encoder:
        """The vocabularies of the version and of the log."""
        return Encoder(self.log.log.users, self.log.log.items, self.log.vocabularies, self.columns)

    @property
    def max_len(self) -> int:
        """Maximum number of behaviours in a history."""
        return int(self.version.manifest["training"]["max_len"])


def parity_checks(
    folder: Path | None, champion: CurrentVersion, challenger: CurrentVersion, *, requests: int
) -> list[Check]:
    """Return the checks of the gate.

    Args:
        folder: request log of the service; None if there is none.
        champion, challenger: the versions.
        requests: number of logged requests that is needed of each; the newest of the champion are checked, and of these and up
            to eight times as many, the newest that the challenger can score.

    Raises:
        InputError: the request log is damaged, or a version has multi-hot features.
    """

    def of_champion(count: int) -> list[Served]:
        return [] if folder is None else newest(read_request_log(folder), champion.version.id, count)

    logged = of_champion(requests)
    checks = [_enough("logged requests of the champion", len(logged), requests)]
    if len(logged) < requests:
        return checks
    checks.append(_equal("champion: served minus batch scores", _difference(logged, champion)))
    answered, from_log = _as_service(of_champion, challenger, requests)
    checks.append(_enough("logged requests that the challenger can score", len(answered), requests))
    if answered:
        largest = np.max([_difference(answered, challenger), from_log])  # NaN if one is
        checks.append(_equal("challenger: served minus batch scores", float(largest)))
    return checks


def newest(served: Iterable[Served], version: str, count: int) -> list[Served]:
    """Return the newest requests that a version has answered, at most ``count``, newest first; those without a time are the oldest."""
    keyed = ((line.time, index, line) for index, line in enumerate(served) if line.version == version)
    return [line for _, _, line in heapq.nlargest(count, keyed)]


def _enough(name: str, count: int, needed: int) -> Check:
    return Check(name, count, f"at least {needed}", count >= needed)


def _equal(name: str, largest: float) -> Check:
    return Check(name, largest, f"at most {TOLERANCE:g}", largest <= TOLERANCE)


def _difference(served: list[Served], current: CurrentVersion) -> float:
    """Return the largest difference of what was served from batch scoring of the same features; NaN if a score is not a number."""
    parity = compare_served(
        served, lambda _: current.version, lambda _: (current.encoder, current.log.features.items), tolerance=TOLERANCE
    )  # fmt: skip
    largest: float = parity["largest_difference"]
    return largest if parity["passed"] or largest > TOLERANCE else np.nan


def _as_service(
    of_champion: Callable[[int], list[Served]], challenger: CurrentVersion, requests: int
) -> tuple[list[Served], float]:
    """Return the responses of the challenger's ranker, and the largest difference of those whose history is in the log from batch scoring."""
    answered: list[Served] = []
    with tempfile.TemporaryDirectory() as folder:
        ranker = Ranker.load(_write_snapshot(Path(folder) / "snapshot", challenger))
        for served, features in _scorable(of_champion, ranker, requests):
            update = {"version": challenger.version.id, "features": features_json(features)}
            answered.append(served.model_copy(update=update | {"ctr": ranker.score(features).tolist()}))
    in_log = [served for served in answered if not {"history", "time"} & set(served.request)]
    differences = [
        np.abs(np.asarray(served.ctr) - ctr).max()
        for served, ctr in zip(in_log, batch_scores(in_log, challenger), strict=True)
    ]
    return answered, float(np.max(differences, initial=0.0))


def _scorable(
    of_champion: Callable[[int], list[Served]], ranker: Ranker, requests: int
) -> list[tuple[Served, Features]]:
    """Return the newest requests that a ranker can score, and their features.

    Requests that it refuses, because it needs other context features for example, are left out.
    """
    scorable: list[tuple[Served, Features]] = []
    for count in (factor * requests for factor in _FACTORS):
        scorable, logged = [], of_champion(count)
        for served in logged:
            try:
                scorable.append((served, ranker.features(_ranking_request(served.request))))
            except InputError:
                continue
            if len(scorable) == requests:
                return scorable
        if len(logged) < count:
            break
    return scorable


def _write_snapshot(folder: Path, current: CurrentVersion) -> Path:
    facts = SnapshotFacts(
        experiment=f"{current.version.manifest.get('dataset')}.{current.version.manifest['model']}", version=current.version.id, columns=current.columns,
        max_len=current.max_len, log_end=int(current.tables.behaviors["time"].max()), last_day="",
    )  # fmt: skip
    log = current.log
    save_snapshot(folder, facts, current.version, log.behaviors, log.features, log.log.users, log.log.items)
    return folder


def _ranking_request(request: Mapping[str, Any]) -> RankingRequest:
    """Return a logged request in the form of the ranker; bids do not change its scores."""
    items = [candidate["item"] for candidate in request["candidates"]]
    return RankingRequest(
        request.get("user"), items, context=request.get("context", {}), history=request.get("history"),
        time=request.get("time"),
    )  # fmt: skip


def batch_scores(served: list[Served], current: CurrentVersion) -> Iterator[np.ndarray]:
    """Yield the scores of each request for the log's history of its user, by the code of batch scoring."""
    model, calibration, encoder = current.version.model(), current.version.calibration(), current.encoder
    store = FeatureStore.build(current.log.behaviors, current.log.features, torch.device("cpu"))
    names = [field.name for field in store.schema.context]
    for line in served:
        request = _ranking_request(line.request)
        size = len(request.items)
        user = (
            encoder.user_codes([request.user])
            if request.user is not None
            else torch.zeros(1, dtype=torch.int32)
        )
        begin, end = store.offsets[int(user)], store.offsets[int(user) + 1]
        context, _ = encoder.encode_context(request.context, names, size, current.version.id)
        samples = SampleSet(
            store, current.max_len, user=user.expand(size), item=encoder.item_codes(request.items, "items"),
            history_end=(end - begin).int().expand(size), labels=torch.zeros(size), context=context, time=store.now(size),
        )  # fmt: skip
        yield calibration(predict(model, samples, batch_size=4096))
