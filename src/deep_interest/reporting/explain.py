"""Which behaviours one prediction rests on."""

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
from deep_interest.logs.encoding import ITEM_ID
from deep_interest.models.batch import Batch
from deep_interest.models.registry import find_model
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.training.runs import Checkpoint, restore


@dataclass(frozen=True)
class Explanation:
    """One prediction and its behaviours.

    Attributes:
        model: name of the row.
        seed: whose parameters were taken.
        user, candidate: as people know them.
        probability: predicted CTR.
        sampled: the pair is a test sample, whose history and context were taken; else the user's whole log.
        behaviors: ``back`` (1 is the latest), ``item``, ``effect`` on the log-odds and, where the model has it, ``weight``; the
            largest effect first.
    """

    model: str
    seed: int
    user: str
    candidate: str
    probability: float
    sampled: bool
    behaviors: pd.DataFrame

    def text(self, top: int) -> str:
        """The table for a terminal."""
        history = "history before this test sample" if self.sampled else "whole log, context unknown"
        head = (
            f"{self.model} (seed {self.seed}): predicted CTR {self.probability:.2%} for user {self.user} and {self.candidate}\n"
            f"{len(self.behaviors)} behaviours ({history}). Effect: what the log-odds lose when the behaviour is left out.\n"
        )
        if self.behaviors.empty:
            return (
                head
                + "no behaviour: the prediction rests on the candidate, the profile and the context alone"
            )
        shown, left = self.behaviors.head(top), self.behaviors.iloc[top:]
        names = {"back": "latest = 1", "item": "behaviour", "effect": "effect", "weight": "attention"}
        table = shown.rename(columns=names).to_string(index=False, float_format=lambda value: f"{value:+.4f}")
        more = (
            f"\nand {len(left)} more behaviours, none with a larger effect than {left['effect'].abs().max():.4f}"
            if len(left)
            else ""
        )
        return f"{head}\n{table}{more}"

    def chart(self, top: int) -> Chart:
        """The table as a picture."""
        shown = self.behaviors.head(top)
        labels = [f"{row.item} ({row.back} back)" for row in shown.itertuples()]
        weights = shown["weight"].tolist() if "weight" in shown else None
        return explanation_chart(
            shown["effect"].tolist(), weights, labels,
            title=f"{self.model}: {self.probability:.1%} for user {self.user} and {self.candidate}",
        )  # fmt: skip


def explain(checkpoint: Checkpoint, view: DatasetView, user: str, candidate: str) -> Explanation:
    """Ask a trained model which behaviours its prediction rests on.

    Args:
        checkpoint: of the row; its first seed is asked.
        view: the dataset.
        user, candidate: ids of the source.

    Raises:
        InputError: no such user or item, or a model that sees no behaviours.
    """
    key, seed = checkpoint["model"], checkpoint["seeds"][0]
    if hasattr(find_model(key).load(), "fit"):
        raise InputError(f"{key} does not look at the user's behaviours; explain another row")
    model = restore(checkpoint, seed)
    batch, sampled = _batch(view, view.user_code(user), view.item_code(candidate))
    whole, found = leave_one_out_effects(model, batch)
    items = view.items_of(batch.history[ITEM_ID].numpy())
    table = pd.DataFrame(
        {
            "back": np.arange(len(items), 0, -1),
            "item": [view.item_name(item) for item in items],
            "effect": found,
        }
    )
    if has_attention(model) and len(table):
        table["weight"] = behavior_attention(model, batch).weight
    order = np.argsort(-np.abs(found), kind="stable")
    probability = 1 / (1 + np.exp(-whole))
    return Explanation(
        find_model(key).name,
        seed,
        user,
        view.item_name(view.item_code(candidate)),
        probability,
        sampled,
        table.iloc[order],
    )


def _batch(view: DatasetView, user: int, item: int) -> tuple[Batch, bool]:
    """The pair's test sample if there is one, else the pair with the user's whole log."""
    samples = view.test
    rows = np.flatnonzero((samples.user.numpy() == user) & (samples.item.numpy() == item))
    if len(rows):
        return samples.batch(torch.from_numpy(rows[:1])), True
    end = int(view.data.log.offsets[user + 1] - view.data.log.offsets[user])
    return single_sample_batch(samples, user, end, item), False
