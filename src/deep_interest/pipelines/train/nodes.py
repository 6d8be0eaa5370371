"""Train a row and score its test set; torch is imported when a node runs, not when pipelines are listed."""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd
from pydantic import model_validator

from deep_interest.errors import InputError
from deep_interest.experiments import TUNABLE, TUNED_SUFFIX
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.models.registry import model_config
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters

logger = logging.getLogger(__name__)


@cache
def options_of(model: str) -> type[RowOptions]:
    """The type of ``params:models.<model>``: options that the model's class and the training know."""

    class ModelOptions(RowOptions):
        @model_validator(mode="after")
        def are_known(self) -> "ModelOptions":
            model_config(model, self.model)
            return self

    return ModelOptions


def make_train(
    dataset: str, model: str, *, tuned: bool = False
) -> Callable[..., tuple[dict[str, Any], pd.DataFrame, dict[str, Any]]]:
    """The training node's function of one experiment; it knows the experiment's name, to keep and label its fits.

    Args:
        dataset, model: the keys.
        tuned: with the values of the row's search, whatever the run says. These are then handed over alone, else those of
            every row by its key.
    """
    options_type = options_of(model)

    def train(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, options: options_type,
        settings: DatasetParameters, recipes: Recipes, run: RunParameters, found: dict[str, Any],
    ) -> tuple[dict[str, Any], pd.DataFrame, dict[str, Any]]:  # fmt: skip
        """Fit every seed; the checkpoint, the learning curves, and what the row was made with."""
        from deep_interest.training.runs import Data, Experiment, choose_recipe, settings_of, train_experiment

        recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
        name = run.recipe or settings.recipe
        values, other_data = {}, False
        if tuned or (run.tuned and model in TUNABLE):
            own = found if tuned else found.get(model, {})
            values = tuned_values(own, dataset=dataset, model=model, recipe=name)
            recipe = recipe.with_values(model, values)
            other_data = _was_tuned_on_other_data(own, Data(log, features, without_test(samples)))
        experiment = Experiment(
            dataset=dataset,
            model=model,
            options=RowOptions(options.root),
            recipe=recipe,
            seeds=run.seeds or settings.seeds,
            run=run,
            variant=TUNED_SUFFIX if tuned else "",
        )
        checkpoint, curves = train_experiment(experiment, Data(log, features, samples))
        return (
            checkpoint,
            curves,
            settings_of(
                experiment, recipe=name, tuned=values, data=checkpoint["data"], tuned_on_other_data=other_data
            ),
        )

    return train


def tuned_values(found: dict[str, Any], *, dataset: str, model: str, recipe: str) -> dict[str, Any]:
    """The values that a row's search has found, by dotted name.

    Args:
        found: the search's result; empty where there is none.
        dataset, model: the keys.
        recipe: the recipe that the values are to be used with.

    Raises:
        InputError: there is no result, or it is of another recipe.
    """
    search = f"kedro run --pipelines=tune.{dataset}.{model}"
    if not found:
        raise InputError(
            f"training.tuned: no tuned values for {dataset}.{model}; find some by `{search}`, or leave it out"
        )
    if found["recipe"] != recipe:
        raise InputError(
            f"training.tuned: the values for {dataset}.{model} were found with the recipe {found['recipe']}, this run uses "
            f"{recipe}; search again by `{search} --params=training.recipe={recipe}`"
        )
    return found["values"]


def without_test(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples that a search sees: those of the training and validation splits."""
    return samples[samples["split"] != "test"].reset_index(drop=True)


def _was_tuned_on_other_data(found: dict[str, Any], seen: Any) -> bool:
    """Whether a search's values were found on other data than ``seen``, those that a search would see now; if so, warn."""
    other = found.get("data") != seen.fingerprint()
    if other:
        name = f"{found['dataset']}.{found['model']}"
        logger.warning(
            "training.tuned: the values for %s were found on other samples, features or behaviours than the present ones; they "
            "are used as they are. To search again, delete the study below 06_models and run `kedro run --pipelines=tune.%s`",
            name, name,
        )  # fmt: skip
    return other


def predict(
    checkpoint: dict[str, Any],
    log: BehaviorLog,
    features: FeatureTables,
    samples: pd.DataFrame,
    run: RunParameters,
) -> pd.DataFrame:
    """Predicted CTR of every test sample, a column a seed. Nothing is chosen by it: this is the test set's one use beside watched curves."""
    from deep_interest.training.runs import Data, predict_experiment

    return predict_experiment(checkpoint, run, Data(log, features, samples))
