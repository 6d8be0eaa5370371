"""Explain one prediction by the user's behaviours."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from deep_interest.analysis.attribution import (
    behavior_attention,
    has_attention,
    leave_one_out_effects,
    single_sample_batch,
)
from deep_interest.errors import InputError
from deep_interest.figures.analysis import explanation_chart
from deep_interest.figures.chart import Chart
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.models.batch import Batch
from deep_interest.models.registry import find_model
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.training.runs import Checkpoint, restore


@dataclass(frozen=True)
class Explanation:
    """One prediction, and the effect of each behaviour on it.

    Attributes:
        model: name of the model.
        seed: seed of the training run whose parameters were used.
        user: id of the user.
        candidate: name of the candidate item.
        probability: predicted CTR.
        is_test_sample: whether user and candidate are a test sample, whose history and context were used; otherwise the history is the
            user's whole log and the context is unknown.
        behaviors: one row per behaviour, largest effect first; columns ``back`` (1 is the newest), ``item``, ``effect`` on the
            log-odds and, for models with attention, ``weight``.
    """

    model: str
    seed: int
    user: str
    candidate: str
    probability: float
    is_test_sample: bool
    behaviors: pd.DataFrame

    def text(self, top: int) -> str:
        """Return the explanation as a table for the terminal.

        Args:
            top: number of behaviours to list.
        """
        history = (
            "history of the test sample" if self.is_test_sample else "whole log of the user, unknown context"
        )
        head = (
            f"{self.model} (seed {self.seed}): predicted CTR {self.probability:.2%} for user {self.user} and {self.candidate}\n"
            f"{len(self.behaviors)} behaviours ({history}). Effect: drop of the log-odds when the behaviour is left out.\n"
        )
        if self.behaviors.empty:
            return f"{head}There are no behaviours: the prediction depends on candidate, profile and context only."
        listed, rest = self.behaviors.head(top), self.behaviors.iloc[top:]
        names = {
            "back": "position (1 = newest)",
            "item": "behaviour",
            "effect": "effect",
            "weight": "attention",
        }
        table = listed.rename(columns=names).to_string(
            index=False, float_format=lambda value: f"{value:+.4f}"
        )
        if rest.empty:
            return f"{head}\n{table}"
        return f"{head}\n{table}\nand {len(rest)} more behaviours with effects of at most ±{rest['effect'].abs().max():.4f}"

    def chart(self, top: int) -> Chart:
        """Return the explanation as a chart.

        Args:
            top: number of behaviours to draw.
        """
        listed = self.behaviors.head(top)
        labels = [f"{row.item} (no. {row.back})" for row in listed.itertuples()]
        weights = listed["weight"].tolist() if "weight" in listed else None
        return explanation_chart(
            listed["effect"].tolist(), weights, labels,
            title=f"{self.model}: predicted CTR {self.probability:.1%} for user {self.user} and {self.candidate}",
        )  # fmt: skip


def explain(checkpoint: Checkpoint, view: DatasetView, user: str, candidate: str) -> Explanation:
    """Compute which behaviours of a user a model's prediction for a candidate depends on.

    Args:
        checkpoint: checkpoint of the model; its first seed is used.
        view: the dataset that the model was trained on.
        user: id of the user, as in the source.
        candidate: id of the item, as in the source.

    Raises:
        InputError: the user or the item does not exist, or the model does not use behaviours.
    """
    key, seed = checkpoint["model"], checkpoint["seeds"][0]
    if hasattr(find_model(key).load(), "fit"):
        raise InputError(f"{key} does not use the user's behaviours; explain another model")
    model = restore(checkpoint, seed)
    user_code, item_code = view.user_code(user), view.item_code(candidate)
    batch, is_test_sample = _batch(view, user_code, item_code)
    log_odds, effects = leave_one_out_effects(model, batch)
    names = [view.item_name(item) for item in view.items_of(batch.history[ITEM_ID].numpy())]
    behaviors = pd.DataFrame({"back": np.arange(len(names), 0, -1), "item": names, "effect": effects})
    if has_attention(model) and len(behaviors):
        behaviors["weight"] = behavior_attention(model, batch).weight
    return Explanation(
        model=find_model(key).name,
        seed=seed,
        user=user,
        candidate=view.item_name(item_code),
        probability=1 / (1 + np.exp(-log_odds)),
        is_test_sample=is_test_sample,
        behaviors=behaviors.iloc[np.argsort(-np.abs(effects), kind="stable")],
    )


def _batch(view: DatasetView, user: int, item: int) -> tuple[Batch, bool]:
    """Return the pair's test sample, or else the pair with the user's whole log, and whether it is a test sample.

    Raises:
        InputError: the pair is not a test sample, and the source gives the histories of its samples.
    """
    samples = view.test
    rows = np.flatnonzero((samples.user.numpy() == user) & (samples.item.numpy() == item))
    if len(rows):
        return samples.batch(torch.from_numpy(rows[:1])), True
    if samples.given_segment is not None:
        raise InputError(
            "user and candidate: no test sample has both, and the source gives the history of each sample, so the user has no history "
            "of their own; explain a pair of the test set"
        )
    behaviors = int(view.data.log.offsets[user + 1] - view.data.log.offsets[user])
    return single_sample_batch(samples, user, behaviors, item), False
