"""How much of the simulator's structure trained models have learned."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from deep_interest.analysis.attribution import BehaviorAttention, behavior_attention, interest_states
from deep_interest.analysis.structure import attention_on_related, cluster_silhouette, state_movement
from deep_interest.logs.encoding import ITEM_ID
from deep_interest.models.batch import Batch
from deep_interest.reporting.dataset_view import DatasetView
from deep_interest.reporting.item_embeddings import item_vectors, items_of_largest_categories
from deep_interest.reporting.plots import first_seed_model
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.relevance import is_related
from deep_interest.simulation.world import make_world
from deep_interest.training.runs import Checkpoint, untrained

MAX_SAMPLES = 2000

Measure = tuple[str, float, float]  # name, value found, value expected by chance


def measure_structure(
    checkpoints: dict[str, Checkpoint], view: DatasetView, simulation: SimulationConfig
) -> pd.DataFrame:
    """Measure attention, interest states and embeddings against the structure of the simulated world.

    Args:
        checkpoints: checkpoints of models with attention, by model key; states are measured where a model has an evolving interest.
        view: the simulated dataset.
        simulation: configuration of the simulated world.

    Returns:
        Columns ``measure``, ``model``, ``found``, ``by_chance``, ``samples``; one row per measure and model. For silhouettes, chance
        is the model before training, since embeddings that include the category form clusters from the start.
    """
    world = make_world(simulation)
    batch = view.test.batch(_samples_with_histories(view))
    rows = []
    for key, checkpoint in checkpoints.items():
        measures, samples = _attention_measures(first_seed_model(checkpoint), batch, view, world)
        measures += _silhouettes(checkpoint, view)
        rows += [
            {"measure": name, "model": key, "found": found, "by_chance": by_chance, "samples": samples}
            for name, found, by_chance in measures
        ]
    return pd.DataFrame(rows)


def _attention_measures(model: Any, batch: Batch, view: DatasetView, world: Any) -> tuple[list[Measure], int]:
    """Return measures of attention and interest states, and on how many samples those of attention rest."""
    attention = behavior_attention(model, batch)
    related = _related(view, attention, world)
    found = attention_on_related(attention, related)
    measures = [
        ("attention weight on related behaviours", found["weight_share"], found["count_share"]),
        ("AUC of attention for related behaviours", found["auc"], 0.5),
    ]
    if hasattr(model, "interest_evolution"):
        attention, states = interest_states(model, batch)
        ratio = state_movement(attention, states, related)["ratio"]
        measures.append(("step length, related to other behaviours", ratio, 1.0))
    return measures, found["samples"]


def _silhouettes(checkpoint: Checkpoint, view: DatasetView) -> list[Measure]:
    """Return silhouettes of the categories, after and before training."""
    trained, initial = first_seed_model(checkpoint), untrained(checkpoint, checkpoint["seeds"][0]).eval()
    items, categories = items_of_largest_categories(view)
    category_codes = np.unique(categories, return_inverse=True)[1]
    vectors = [item_vectors(model, view, items) for model in (trained, initial)]
    measures = []
    for name, width in (("item and category", None), ("item only", trained.embedding_dim)):
        found, by_chance = (cluster_silhouette(each[:, :width], category_codes) for each in vectors)
        measures.append((f"silhouette of categories, {name}", found, by_chance))
    return measures


def _samples_with_histories(view: DatasetView) -> torch.Tensor:
    """Return the rows of at most `MAX_SAMPLES` test samples with two behaviours or more, spread over the test set."""
    rows = np.flatnonzero(view.test.history_end.numpy() >= 2)
    return torch.from_numpy(rows[:: max(1, len(rows) // MAX_SAMPLES)][:MAX_SAMPLES])


def _related(view: DatasetView, attention: BehaviorAttention, world: Any) -> np.ndarray:
    """Return whether each behaviour is related to its candidate in the simulated world, ``(P,)``."""
    ids = np.concatenate([[0], view.item_ids["id"].to_numpy()])
    behaviors, candidates = (
        view.items_of(codes[ITEM_ID]) for codes in (attention.behavior, attention.candidate)
    )
    known = (behaviors > 0) & (candidates > 0)
    found = np.zeros(len(behaviors), bool)
    found[known] = is_related(world, ids[behaviors[known]], ids[candidates[known]])
    return found
