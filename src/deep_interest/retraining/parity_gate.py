"""The gate's demand that the service scores as batch scoring does, checked on requests that the service has logged.

The scores that the champion has served are compared with its batch scores. The challenger answers the same requests in the way the service
would, by a snapshot and its ranker, and is compared with its own batch scores: from the features of each request, and, where the request
has no history and no time of its own, from the log.
"""

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
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
from deep_interest.serving.ranking import RankingRequest, features_json
from deep_interest.serving.snapshot import SnapshotFacts, save_snapshot
from deep_interest.serving.version import Version
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict


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
        requests: number of logged requests of the champion that is needed; the newest ones are checked.

    Raises:
        InputError: the request log is damaged, or a version has multi-hot features.
    """
    logged = [] if folder is None else newest(read_request_log(folder), champion.version.id, requests)
    checks = [_enough("logged requests of the champion", len(logged), requests)]
    if len(logged) < requests:
        return checks
    checks.append(_equal("champion: served minus batch scores", _difference(logged, champion)))
    answered, from_log = _as_service(logged, challenger)
    checks.append(_enough("logged requests that the challenger can score", len(answered), requests))
    if answered:
        largest = np.max([_difference(answered, challenger), from_log])  # NaN if one is
        checks.append(_equal("challenger: served minus batch scores", float(largest)))
    return checks


def newest(served: Iterable[Served], version: str, count: int) -> list[Served]:
    """Return the last requests that a version has answered, at most ``count``."""
    return list(deque((of for of in served if of.version == version), maxlen=count))


def _enough(name: str, found: int, needed: int) -> Check:
    return Check(name, found, f"at least {needed}", found >= needed)


def _equal(name: str, largest: float) -> Check:
    return Check(name, largest, f"at most {TOLERANCE:g}", largest <= TOLERANCE)


def _difference(served: list[Served], of: CurrentVersion) -> float:
    """Return the largest difference of what was served from batch scoring of the same features; NaN if a score is not a number."""
    parity = compare_served(
        served, lambda _: of.version, lambda _: (of.encoder, of.log.features.items), tolerance=TOLERANCE
    )
    largest: float = parity["largest_difference"]
    return largest if parity["passed"] or largest > TOLERANCE else np.nan


def _as_service(logged: list[Served], challenger: CurrentVersion) -> tuple[list[Served], float]:
    """Return the answers of the challenger's ranker, and the largest difference of those whose history is in the log from batch scoring.

    Requests that the challenger refuses, because it needs other context features for example, are left out.
    """
    answered: list[Served] = []
    with tempfile.TemporaryDirectory() as folder:
        ranker = Ranker.load(_write_snapshot(Path(folder) / "snapshot", challenger))
        for one in logged:
            try:
                features = ranker.features(_ranking_request(one.request))
            except InputError:
                continue
            update = {"version": challenger.version.id, "features": features_json(features)}
            answered.append(one.model_copy(update=update | {"ctr": ranker.score(features).tolist()}))
    in_log = [of for of in answered if not {"history", "time"} & set(of.request)]
    batch = batch_scores(in_log, challenger)
    differences = [np.abs(np.asarray(one.ctr) - ctr).max() for one, ctr in zip(in_log, batch, strict=True)]
    return answered, float(np.max(differences, initial=0.0))


def _write_snapshot(folder: Path, of: CurrentVersion) -> Path:
    facts = SnapshotFacts(
        experiment=f"{of.version.manifest.get('dataset')}.{of.version.manifest['model']}", version=of.version.id, columns=of.columns,
        max_len=of.max_len, log_end=int(of.tables.behaviors["time"].max()), last_day="",
    )  # fmt: skip
    current = of.log
    save_snapshot(
        folder, facts, of.version, current.behaviors, current.features, current.log.users, current.log.items
    )
    return folder


def _ranking_request(request: Mapping[str, Any]) -> RankingRequest:
    """Return a logged request in the form of the ranker; bids do not change its scores."""
    items = [of["item"] for of in request["candidates"]]
    return RankingRequest(
        request.get("user"), items, context=request.get("context", {}), history=request.get("history"),
        time=request.get("time"),
    )  # fmt: skip


def batch_scores(served: list[Served], of: CurrentVersion) -> Iterator[np.ndarray]:
    """Yield the scores of each request for the log's history of its user, by the code of batch scoring."""
    model, encoder = of.version.model(), of.encoder
    store = FeatureStore.build(of.log.behaviors, of.log.features, torch.device("cpu"))
    names = [field.name for field in store.schema.context]
    for one in served:
        request = _ranking_request(one.request)
        size = len(request.items)
        user = (
            encoder.user_codes([request.user])
            if request.user is not None
            else torch.zeros(1, dtype=torch.int32)
        )
        begin, end = store.offsets[int(user)], store.offsets[int(user) + 1]
        context, _ = encoder.encode_context(request.context, names, size, of.version.id)
        samples = SampleSet(
            store, of.max_len, user=user.expand(size), item=encoder.item_codes(request.items, "items"),
            history_end=(end - begin).int().expand(size), labels=torch.zeros(size), context=context, time=store.now(size),
        )  # fmt: skip
        yield predict(model, samples, batch_size=4096)
