"""Train a model and predict the test set.

The nodes import torch when they run, so that listing pipelines does not.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar

import pandas as pd
from pydantic import model_validator

from deep_interest.distributed.environment import current_ranks
from deep_interest.errors import InputError
from deep_interest.experiments import LEADERBOARD, LEADERBOARD_SUFFIX, TUNABLE
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.models.registry import model_config
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.tuning.policy import LeaderboardParameters

logger = logging.getLogger(__name__)

NodeFunction = TypeVar("NodeFunction", bound=Callable[..., Any])


@cache
def options_type(model: str) -> type[RowOptions]:
    """Return the type of ``params:models.<model>``, which validates the options of the model and of training."""

    class ModelOptions(RowOptions):
        @model_validator(mode="after")
        def validate_options(self) -> "ModelOptions":
            model_config(model, self.model)
            return self

        def __reduce__(self) -> tuple[Callable[..., RowOptions], tuple[str, dict[str, Any]]]:
            return _options, (
                model,
                self.root,
            )  # a class in a function cannot be sent to another process by its name

    return ModelOptions


def _options(model: str, values: dict[str, Any]) -> RowOptions:
    return options_type(model)(values)


def takes_options_of(model: str) -> Callable[[NodeFunction], NodeFunction]:
    """Decorate a node function whose parameter ``options`` is ``params:models.<model>``, which Kedro validates by its annotation."""

    def annotate(function: NodeFunction) -> NodeFunction:
        function.__annotations__ = {**function.__annotations__, "options": options_type(model)}
        return function

    return annotate


@node_factory
def make_train(
    dataset: str, model: str, *, variant: str = ""
) -> Callable[..., tuple[dict[str, Any], pd.DataFrame, dict[str, Any]]]:
    """Return the node function that trains an experiment.

    Args:
        dataset: key of the dataset.
        model: key of the model.
        variant: suffix of a variant that uses tuned values regardless of the run's parameters. With ``_tuned``, the node's input has the
            values of this model; with ``_leaderboard`` those of all models by key; without a variant the files of all models and of the
            leaderboard by folder.
    """

    @takes_options_of(model)
    def train(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, options: RowOptions,
        settings: DatasetParameters, recipes: Recipes, run: RunParameters, tuned_results: dict[str, Any],
        leaderboard: LeaderboardParameters | None = None,
    ) -> tuple[dict[str, Any], pd.DataFrame, dict[str, Any]]:  # fmt: skip
        """Fit every seed; return the checkpoint, the learning curves and the settings of the fit."""
        from deep_interest.training.runs import Data, Experiment, choose_recipe, settings_of

        recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
        name = run.recipe or settings.recipe
        values, other_data = {}, False
        source = _source_of_values(model, variant, run)
        if source:
            result = _result_of(tuned_results, model, variant, source)
            values = tuned_values(result, dataset=dataset, model=model, recipe=name, source=source)
            recipe = recipe.with_values(model, values)
            other_data = _was_tuned_on_other_data(
                result, Data(log, features, without_test(samples)), tuning_pipeline(dataset, model, source)
            )
        experiment = Experiment(
            dataset=dataset,
            model=model,
            options=RowOptions(options.root),
            recipe=recipe,
            seeds=run.seeds or (leaderboard or settings).seeds,
            run=run,
            variant=variant,
        )
        checkpoint, curves = _train(experiment, Data(log, features, samples))
        return (
            checkpoint,
            curves,
            settings_of(
                experiment, recipe=name, tuned=values, data=checkpoint["data"], tuned_on_other_data=other_data
            ),
        )

    return train


def _train(experiment: Any, data: Any) -> tuple[dict[str, Any], pd.DataFrame]:
    """Train in this process, or on all ranks if ``torchrun`` has started it."""
    if current_ranks() is None:
        from deep_interest.training.runs import train_experiment

        return train_experiment(experiment, data)
    from deep_interest.distributed.runs import train_on_ranks

    return train_on_ranks(experiment, data)


def _source_of_values(model: str, variant: str, run: RunParameters) -> str | None:
    """Return what has found the values that a model is trained with: ``tune``, ``leaderboard``, or None for its own options."""
    if variant:
        return LEADERBOARD if variant == LEADERBOARD_SUFFIX else "tune"
    if run.tuned == LEADERBOARD:
        return LEADERBOARD
    return "tune" if run.tuned and model in TUNABLE else None


def _result_of(found: dict[str, Any], model: str, variant: str, source: str) -> dict[str, Any]:
    """Return the result of a model's search from the node's input, see `make_train`; empty if there is none."""
    if variant:
        return found.get(model, {}) if source == LEADERBOARD else found
    return found.get(LEADERBOARD, {}).get(model, {}) if source == LEADERBOARD else found.get(model, {})


def tuned_values(
    result: dict[str, Any], *, dataset: str, model: str, recipe: str, source: str = "tune"
) -> dict[str, Any]:
    """Return the best values of a search, by dotted option name.

    Args:
        result: result of the search; empty if there is none.
        dataset: key of the dataset.
        model: key of the model.
        recipe: recipe to use the values with.
        source: what has found the values: ``tune`` or ``leaderboard``.

    Raises:
        InputError: there is no result, or it belongs to another recipe.
    """
    command = f"kedro run --pipelines={tuning_pipeline(dataset, model, source)}"
    if not result:
        raise InputError(
            f"training.tuned: no tuned values for {dataset}.{model}; find them with `{command}`, or remove "
            "training.tuned"
        )
    if result["recipe"] != recipe:
        raise InputError(
            f"training.tuned: the values for {dataset}.{model} were tuned with the recipe {result['recipe']}, but this "
            f"run uses {recipe}; run `{command} --params=training.recipe={recipe}`"
        )
    return result["values"]


def tuning_pipeline(dataset: str, model: str, source: str) -> str:
    """Return the name of the pipeline that finds tuned values of a model: ``tune.<dataset>.<model>`` or ``leaderboard.<dataset>``."""
    return f"{LEADERBOARD}.{dataset}" if source == LEADERBOARD else f"tune.{dataset}.{model}"


def without_test(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of the training and validation splits, the only ones that a search may use."""
    return samples[samples["split"] != "test"].reset_index(drop=True)


def _was_tuned_on_other_data(result: dict[str, Any], data: Any, pipeline: str) -> bool:
    """Return whether a search used other data than ``data``, the data of a new search; log a warning if so."""
    is_other = result.get("data") != data.fingerprint()
    if is_other:
        name = f"{result['dataset']}.{result['model']}"
        logger.warning(
            "training.tuned: the values for %s were tuned on other samples, features or behaviours than the current "
            "ones; they are used unchanged. To search again, delete the study below 06_models and run `kedro run "
            "--pipelines=%s`",
            name, pipeline,
        )  # fmt: skip
    return is_other


def predict(
    checkpoint: dict[str, Any],
    log: BehaviorLog,
    features: FeatureTables,
    samples: pd.DataFrame,
    run: RunParameters,
) -> pd.DataFrame:
    """Return the predicted CTR of every test sample, one column per seed.

    Nothing is selected by these predictions: apart from monitored learning curves, this is the only use of the test
    set. The attribute ``cost`` is what the model costs when it scores; training on several processes does not measure it.
    """
    from deep_interest.analysis.cost import model_cost
    from deep_interest.training.runs import Data, predict_experiment

    if current_ranks() is None:
        data = Data(log, features, samples)
        predictions = predict_experiment(checkpoint, run, data)
        predictions.attrs["cost"] = asdict(model_cost(checkpoint, run, data))
        return predictions
    from deep_interest.distributed.runs import predict_with_ranks

    return predict_with_ranks(checkpoint, run, Data(log, features, samples))
