"""Trained models as one dataset: what the comparison and the report need of every model.

A dataset has about 26 models with three outputs each. Each family of models collects its own, and the families are
merged, so that the pipeline graph has one dataset between the models and their comparison.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from deep_interest.pipelines.factories import node_factory


@dataclass(frozen=True)
class TrainedModel:
    """Outputs of an experiment.

    Attributes:
        predictions: predicted CTR of the test samples, one column per seed.
        curves: learning curves.
        settings: options, seeds, tuned values and versions; empty if unknown.
    """

    predictions: pd.DataFrame
    curves: pd.DataFrame
    settings: dict[str, Any]


class TrainedModels(dict[str, TrainedModel]):
    """Trained models by key, in the order of their table; they are read only."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "TrainedModels":
        return self  # Kedro copies data in memory for every node that reads them


@node_factory
def make_collect(models: Sequence[str]) -> Callable[..., TrainedModels]:
    """Return the node function that collects models.

    The function takes ``<model>_predictions``, ``<model>_curves`` and ``<model>_settings`` of each model as keyword
    arguments.
    """

    def collect(**outputs: Any) -> TrainedModels:
        """Return the models by key."""
        kinds = ("predictions", "curves", "settings")
        return TrainedModels(
            {model: TrainedModel(*(outputs[f"{model}_{kind}"] for kind in kinds)) for model in models}
        )

    return collect


@node_factory
def make_merge(models: Sequence[str]) -> Callable[..., TrainedModels]:
    """Return the node function that merges the collected families of models, in the order of ``models``."""

    def merge(**families: TrainedModels) -> TrainedModels:
        """Return all models by key."""
        by_key = {model: trained for family in families.values() for model, trained in family.items()}
        return TrainedModels({model: by_key[model] for model in models})

    return merge


def list_settings(trained_models: TrainedModels) -> dict[str, Any]:
    """Return the settings by model."""
    return {model: trained.settings for model, trained in trained_models.items()}
