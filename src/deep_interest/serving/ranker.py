"""Rank candidates for one user by CTR^γ × bid, with a history of the log and of the events since then."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deep_interest.logs.encoding import code_column
from deep_interest.logs.feature_columns import GAP
from deep_interest.models.batch import ValueSetsByField
from deep_interest.models.config import Precision
from deep_interest.ops.attention_bfloat16 import has_amx
from deep_interest.ops.jagged import Jagged
from deep_interest.serving.events import Event, EventStore, Id
from deep_interest.serving.ranking import Features, Ranking, RankingRequest, order
from deep_interest.serving.scorer import Scorer
from deep_interest.serving.snapshot import Snapshot, load_snapshot
from deep_interest.training.data import FeatureStore
from deep_interest.training.derived_fields import derived_codes
from deep_interest.training.tensors import value_sets_on

logger = logging.getLogger(__name__)
_WARM_UP = (1, 2, 100)  # candidates; kernels for few rows are compiled apart from those for many
_CACHED_USERS = 10_000  # whose events since the log are kept encoded
_CPU = torch.device("cpu")


class Ranker:
    """A snapshot that ranks.

    Args:
        snapshot: version, log and features.
        events: behaviours since the log ends; None for none.
        device: device that scores. Requests are encoded on the CPU.
    """

    def __init__(
        self, snapshot: Snapshot, events: EventStore | None = None, *, device: torch.device = _CPU
    ) -> None:
        self.snapshot, self.facts, self._events = snapshot, snapshot.facts, events
        self.model, self.device = snapshot.version.model().to(device), device
        self._calibration = snapshot.version.calibration()
        self.store = FeatureStore.build(snapshot.log, snapshot.features, _CPU)
        self._value_sets = value_sets_on(self.store.value_sets, device)
        self._scorer = self._scorer_with({})
        self._lock = threading.Lock()
        self._encoded: OrderedDict[Id, tuple[list[Event], dict[str, Tensor], Tensor]] = OrderedDict()

    def _scorer_with(self, value_sets: ValueSetsByField) -> Scorer:
        """Return a scorer that knows the value sets of a request besides those of the log."""
        known = {**self._value_sets, **value_sets_on(value_sets, self.device)}
        device = None if self.device.type == "cpu" else self.device
        return Scorer(self.model, self.store.schema, value_sets=known, device=device)

    @classmethod
    def load(cls, folder: Path, events: EventStore | None = None, *, device: torch.device = _CPU) -> "Ranker":
        """Verify and load a snapshot, and rank once so that the first request does not wait for compilation.

        Products in bfloat16 save no time on a CPU without AMX: that is logged as a warning.

        Raises:
            InputError: a file of the snapshot is missing or has changed.
        """
        ranker = cls(load_snapshot(folder), events, device=device)
        if ranker.precision.attention == "bfloat16" and not has_amx():
            logger.warning(
                "version %s multiplies in bfloat16, but this CPU has no AMX: the scores are the same, but take "
                "about 1.2 times the CPU time of float32 with 400 candidates (python benchmarks/attention_precision.py); serve it on a CPU with "
                "AMX, or retrain with retraining.attention=float32",
                ranker.version,
            )
        ranker.warm_up()
        return ranker

    @property
    def version(self) -> str:
        """Id of the version."""
        return self.facts.version

    @property
    def precision(self) -> Precision:
        """Precision in which the version scores."""
        return self.snapshot.version.precision

    @property
    def context(self) -> tuple[str, ...]:
        """Names of the context features that a request needs."""
        return tuple(field.name for field in self.store.schema.context)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the own columns of a behaviour that the model sees."""
        return tuple(self.facts.columns.own_columns)

    def warm_up(self) -> None:
        """Rank few and many of the first items of the catalogue for the user with the longest history."""
        for candidates in _WARM_UP:
            for _ in range(3):
                self._rank_first_items(candidates)

    def _rank_first_items(self, candidates: int) -> None:
        store, schema = self.store, self.store.schema
        size = min(candidates, len(next(iter(store.items.values()))) - 1)
        features = Features(
            self._with_derived(*self._of_log(int(store.offsets.diff().argmax())), None),
            {field.name: store.items[field.name][1 : size + 1] for field in schema.item},
            {field.name: store.users[field.name][:1] for field in schema.profile},
            {
                field.name: torch.zeros(1, dtype=torch.int32)
                for field in schema.context
            },
            {}, unknown_user=True, unknown_items=0,
        )  # fmt: skip
        self.score(features)

    def rank(self, request: RankingRequest) -> Ranking:
        """Score and order the candidates.

        Raises:
            InputError: an id or a value has another type than in the source, or a context feature is missing or unknown.
        """
        features = self.features(request)
        return order(request, features, self.score(features))

    def score(self, features: Features) -> np.ndarray:
        """Return the click probabilities ``(C,)``: float32, or float64 if the version is calibrated."""
        scorer = self._scorer_with(features.value_sets) if features.value_sets else self._scorer
        ctr = scorer(
            features.history, features.candidates, profile=features.profile, context=features.context
        )
        return self._calibration(ctr.cpu().numpy())

    def score_many(self, requests: Sequence[Features]) -> list[np.ndarray]:
        """Return the click probabilities of several requests, scored in one forward pass if they have no value sets of their own."""
        if len(requests) == 1 or any(features.value_sets for features in requests):
            return [self.score(features) for features in requests]
        codes = [(of.history, of.candidates, of.profile, of.context) for of in requests]
        ctr = self._calibration(self._scorer.together(codes).cpu().numpy())
        return np.split(ctr, np.cumsum([of.size for of in requests])[:-1])

    def features(self, request: RankingRequest) -> Features:
        """Encode a request.

        Raises:
            InputError: as `rank`.
        """
        store, schema, encoder = self.store, self.store.schema, self.snapshot.encoder
        user = 0 if request.user is None else int(encoder.user_codes([request.user])[0])
        items = encoder.item_codes(request.items, "items")
        context, value_sets = encoder.encode_context(
            request.context, self.context, len(items), self.facts.experiment
        )
        history, times, has_events = self._history(request, user)
        rows = items.long()
        return Features(
            self._with_derived(history, times, request.time),
            {field.name: store.items[field.name][rows] for field in schema.item},
            {field.name: store.users[field.name][user : user + 1] for field in schema.profile},
            context, value_sets, user == 0 and not has_events, int((items == 0).sum()),
        )  # fmt: skip

    def _history(self, request: RankingRequest, user: int) -> tuple[dict[str, Tensor], Tensor | None, bool]:
        """Return the codes and the times of the newest behaviours, and whether there are events among them."""
        if request.history is not None:
            items = self.snapshot.encoder.item_codes(request.history[-self.facts.max_len :], "history")
            return self._of_items(items), None, False
        codes, times = self._of_log(user)
        if self._events is None or request.user is None:
            return codes, times, False
        events = self._events.of_user(request.user, after=self.facts.log_end, limit=self.facts.max_len)
        if not events:
            return codes, times, False
        newer, newer_times = self._encode_events(request.user, events)
        keep = slice(-self.facts.max_len, None)
        codes = {name: torch.cat([of, newer[name]])[keep] for name, of in codes.items()}
        return codes, None if times is None else torch.cat([times, newer_times])[keep], True

    def _of_log(self, user: int) -> tuple[dict[str, Tensor], Tensor | None]:
        store = self.store
        begin, end = (int(offset) for offset in store.offsets[user : user + 2])
        rows = slice(max(begin, end - self.facts.max_len), end)
        codes = {
            field.name: store.history[field.name][rows]
            for field in store.schema.behavior
            if not field.derived
        }
        return codes, None if store.times is None else store.times[rows]

    def _of_items(self, items: Tensor) -> dict[str, Tensor]:
        """Return the codes of behaviours of which only the items are known."""
        store, schema = self.store, self.store.schema
        codes = {field.name: store.items[field.name][items.long()] for field in schema.shared}
        return codes | {
            field.name: torch.zeros(len(items), dtype=torch.int32)
            for field in schema.own
            if not field.derived
        }

    def _encode_events(self, user: Id, events: list[Event]) -> tuple[dict[str, Tensor], Tensor]:
        """Return the codes and the times of a user's events; those of the last request are kept."""
        with self._lock:
            cached = self._encoded.pop(user, None)
        if cached is None or cached[0] != events:
            cached = (events, self._codes_of_events(events), torch.tensor([event.time for event in events]))
        with self._lock:
            self._encoded[user] = cached  # the most recently used one is the last
            if len(self._encoded) > _CACHED_USERS:
                self._encoded.popitem(last=False)
        return cached[1], cached[2]

    def _codes_of_events(self, events: Sequence[Event]) -> dict[str, Tensor]:
        """Return the codes of events; a column that an event lacks, or whose value has another type than in the source, is unknown."""
        encoder = self.snapshot.encoder
        codes = self._of_items(encoder.item_codes([event.item for event in events], "item"))
        for name in self.columns:
            values = [event.columns.get(name) for event in events]
            rows = [row for row, value in enumerate(values) if encoder.has_type(name, value)]
            if not rows or name in self.facts.columns.multi_hot:
                continue
            known = pd.Series([values[row] for row in rows])
            coded = code_column(encoder.context, name, known, self.facts.columns)
            codes[name][rows] = torch.from_numpy(np.ascontiguousarray(coded.codes)).int()
        return codes

    def _with_derived(
        self, codes: dict[str, Tensor], times: Tensor | None, time: int | None
    ) -> dict[str, Tensor]:
        """Add the fields that depend on the request: ``gap`` and ``position``."""
        derived = {
            name: size for name, size in self.store.schema.derived.items() if name != GAP or times is not None
        }
        unknown = {name for name in self.store.schema.derived if name not in derived}
        length = len(next(iter(codes.values())))
        now = None if times is None else torch.tensor([self._now(times) if time is None else time])
        found = codes | derived_codes(derived, Jagged(torch.tensor([0, length])), times, now)
        return found | {name: torch.zeros(length, dtype=torch.int32) for name in unknown}

    def _now(self, times: Tensor) -> int:
        """Return one unit after the newest behaviour of the log or of the user."""
        return max(self._newest, int(times[-1]) if len(times) else self._newest) + 1

    @cached_property
    def _newest(self) -> int:
        times = self.store.times
        return int(times.max()) if times is not None and len(times) else self.facts.log_end

    def check_event(self, event: Event, what: str) -> None:
        """Check that the ids and the columns of an event have the types of the source.

        Args:
            event: the event.
            what: what it is, for error messages.

        Raises:
            InputError: a value is a number where the source has strings, or the reverse.
        """
        encoder = self.snapshot.encoder
        encoder.user_codes([event.user], f"{what}.user")
        encoder.item_codes([event.item], f"{what}.item")
        for name, value in event.columns.items():
            encoder.check_type(name, value, f"{what}.columns.{name}")
