"""Train a row and score its test set; torch is imported when a node runs, not when pipelines are listed."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd
from pydantic import model_validator

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.models.registry import model_config
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters


@cache
def options_of(model: str) -> type[RowOptions]:
    """The type of ``params:models.<model>``: options that the model's class and the training know."""

    class ModelOptions(RowOptions):
        @model_validator(mode="after")
        def are_known(self) -> "ModelOptions":
            model_config(model, self.model)
            return self

    return ModelOptions


def make_train(dataset: str, model: str) -> Callable[..., tuple[dict[str, Any], pd.DataFrame]]:
    """The training node's function of one cell; it knows the cell's name, to keep and label its fits."""
    options_type = options_of(model)

    def train(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, options: options_type,
        settings: DatasetParameters, recipes: Recipes, run: RunParameters,
    ) -> tuple[dict[str, Any], pd.DataFrame]:  # fmt: skip
        """Fit every seed; the checkpoint and the learning curves."""
        from deep_interest.training.runs import Cell, Data, choose_recipe, train_cell

        recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
        cell = Cell(
            dataset=dataset,
            model=model,
            options=RowOptions(options.root),
            recipe=recipe,
            seeds=run.seeds or settings.seeds,
            run=run,
        )
        return train_cell(cell, Data(log, features, samples))

    return train


def predict(
    checkpoint: dict[str, Any],
    log: BehaviorLog,
    features: FeatureTables,
    samples: pd.DataFrame,
    run: RunParameters,
) -> pd.DataFrame:
    """Predicted CTR of every test sample, a column a seed. Nothing is chosen by it: this is the test set's one use beside watched curves."""
    from deep_interest.training.runs import Data, predict_cell

    return predict_cell(checkpoint, run, Data(log, features, samples))
