"""Fit a model with less data, shorter histories and other widths, and compare the fits."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.experiments import MODELS
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.report.nodes import select_test
from deep_interest.pipelines.train.nodes import takes_options_of
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.worth.parameters import WorthParameters

TITLE = "worth of data"


@node_factory
def make_fit(dataset: str, model: str) -> Callable[..., tuple[pd.DataFrame, pd.DataFrame]]:
    """Return the node function that fits all settings of a model."""

    @takes_options_of(model)
    def fit_settings(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, options: RowOptions,
        settings: DatasetParameters, recipes: Recipes, run: RunParameters, worth: WorthParameters,
    ) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
        """Return one row per fit and axis, and the scores of the test samples."""
        from deep_interest.training.runs import Data, Experiment, choose_recipe
        from deep_interest.worth.fits import fit_settings
        from deep_interest.worth.settings import axes_of

        if run.tuned:
            raise InputError(
                f"training.tuned: worth.{dataset}.{model} trains with configured options; remove training.tuned, or name a recipe with "
                "the tuned values in training.recipe"
            )
        recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
        experiment = Experiment(
            dataset=dataset, model=model, options=RowOptions(options.root), recipe=recipe, seeds=run.seeds or worth.seeds, run=run,
        )  # fmt: skip
        axes = axes_of(experiment, samples, worth, by_day=settings.protocol.name == "by_day")
        if not axes:
            raise InputError(
                "worth: shares, max_len and embedding_dim have no value that differs from the model's own; add one"
            )
        return fit_settings(experiment, Data(log, features, samples), axes)

    return fit_settings


@node_factory
def make_compare(dataset: str, model: str) -> Callable[..., pd.DataFrame]:
    """Return the node function that compares the settings of a model."""

    def compare_settings(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, fits: pd.DataFrame, scores: pd.DataFrame,
        evaluation: EvaluationParameters,
    ) -> pd.DataFrame:  # fmt: skip
        """Return GAUC, differences and gains by axis and value."""
        from deep_interest.evaluation.worth_table import worth_table
        from deep_interest.training.content import Data

        if scores.attrs.get("data") != Data(log, features, samples).fingerprint():
            raise InputError(
                f"scores of worth.{dataset}.{model}: made from other samples, features or behaviours than the current ones; run `kedro run "
                f"--pipelines=worth.{dataset}.{model}`"
            )
        test = select_test(samples)[["user", "label"]]
        table = worth_table(test, fits, scores, minimum=evaluation)
        table.insert(0, "model", model)
        return table

    return compare_settings


def write_page(results: pd.DataFrame, dataset: DatasetParameters) -> str:
    """Return the Markdown page."""
    from deep_interest.reporting.worth_section import worth_markdown

    return worth_markdown(results, title=_title(results, dataset))


def draw_curves(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw GAUC by amount of data, history length and embedding width."""
    from deep_interest.figures.worth import worth_chart

    return worth_chart(results, title=_title(results, dataset))


def _title(results: pd.DataFrame, dataset: DatasetParameters) -> str:
    return f"{dataset.title}: {TITLE} ({MODELS[results['model'].iloc[0]].name})"
