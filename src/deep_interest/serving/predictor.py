"""Prediction for one user by the source's own ids: `deep_interest.load` returns a `Predictor`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.logs.feature_columns import GAP
from deep_interest.ops.jagged import Jagged
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.scorer import Scorer
from deep_interest.training.data import FeatureStore
from deep_interest.training.derived_fields import derived_codes

_UNCALIBRATED = Calibration()


class Predictor:
    """A trained model that predicts click probabilities for a user and candidate items.

    Users, items and context values that the model has not seen in training are encoded as "unknown", as in the test set.

    Args:
        name: experiment, and version if there is one, such as ``simulated.din``.
        model: trained model on the CPU.
        store: log and feature codes in the model's vocabularies, on the CPU.
        encoder: vocabularies of the ids.
        max_len: maximum number of behaviours in a history; the newest ones are kept.
        version: id of the version of the registry; None for a model that ``kedro run`` has trained.
        seed: seed of the fit; None for a version.
        calibration: calibration of the version.
    """

    def __init__(
        self, name: str, model: nn.Module, store: FeatureStore, encoder: Encoder, *, max_len: int,
        version: str | None = None, seed: int | None = None, calibration: Calibration = _UNCALIBRATED,
    ) -> None:  # fmt: skip
        self.name, self.model, self.max_len = name, model, max_len
        self.store, self.encoder = store, encoder
        self.version, self.seed, self.calibration = version, seed, calibration

    def __repr__(self) -> str:
        context = f", context={list(self.context)}" if self.context else ""
        return f"<Predictor {self.name}{context}>"

    @property
    def context(self) -> tuple[str, ...]:
        """Names of the context features that `predict` needs; empty for a model without context features."""
        return tuple(field.name for field in self.store.schema.context)

    def predict(
        self,
        user: Any,
        items: Sequence[Any],
        context: Mapping[str, Any] | None = None,
        *,
        history: Sequence[Any] | None = None,
        time: int | None = None,
    ) -> pd.Series:
        """Predict the click probability of each item for a user.

        Args:
            user: id of the user; None or an unknown id for a new user.
            items: ids of the C candidate items.
            context: value of each context feature: one for all candidates, or a list with one per candidate.
            history: ids of the items of the user's behaviours, from oldest to newest; all behaviours of the user in the log if
                left out. What happened in these behaviours, and when, is then unknown to the model.
            time: time of the request in the unit of the log, for models with the time since a behaviour; just after the newest
                behaviour of the log if left out.

        Returns:
            Click probabilities ``(C,)`` by item id in the order of ``items``: float32, or float64 of a calibrated version.

        Raises:
            InputError: there is no item, an id or a value has another type than in the source, or a context feature is missing or
                unknown.
        """
        items = list(items)
        if not items:
            raise InputError("items: found none; pass the ids of the candidate items")
        store, schema = self.store, self.store.schema
        user_code = 0 if user is None else int(self.encoder.user_codes([user])[0])
        item_codes = self.encoder.item_codes(items, "items")
        codes, value_sets = self.encoder.encode_context(context or {}, self.context, len(items), self.name)
        ctr = Scorer(self.model, schema, value_sets={**store.value_sets, **value_sets})(
            self._history(user_code, history, time),
            {field.name: store.items[field.name][item_codes.long()] for field in schema.item},
            profile={
                field.name: store.users[field.name][user_code : user_code + 1] for field in schema.profile
            },
            context=codes,
        )
        return pd.Series(self.calibration(ctr.numpy()), index=pd.Index(items, name="item"), name="ctr")

    def _history(self, user: int, history: Sequence[Any] | None, time: int | None) -> dict[str, Tensor]:
        store, schema, times = self.store, self.store.schema, self.store.times
        if history is not None:
            items = self.encoder.item_codes(list(history)[-self.max_len :], "history")
            codes = {field.name: store.items[field.name][items.long()] for field in schema.shared}
            codes |= {field.name: torch.zeros_like(items) for field in schema.own}
            length, times = len(items), None
        else:
            begin, end = (int(offset) for offset in store.offsets[user : user + 2])
            rows = slice(max(begin, end - self.max_len), end)
            codes = {
                field.name: store.history[field.name][rows] for field in schema.behavior if not field.derived
            }
            length, times = rows.stop - rows.start, None if times is None else times[rows]
        derived = {name: size for name, size in schema.derived.items() if name != GAP or times is not None}
        return codes | derived_codes(derived, Jagged(torch.tensor([0, length])), times, store.now(1, time))
