"""Tune every model of a table with the same budget, and compare the models with their best options.

The search only reads training and validation samples; the test set is scored once, by the fits with the best options.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.experiments import LEADERBOARD, LEADERBOARD_SUFFIX, MODELS
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.report.nodes import model_runs, require_current_data, select_test
from deep_interest.pipelines.train.nodes import options_type
from deep_interest.pipelines.trained import TrainedModels
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.tuning.parameters import TuningParameters
from deep_interest.tuning.policy import LeaderboardParameters

logger = logging.getLogger(__name__)

OPTIONS_PREFIX = "options_"  # of the inputs with the options of the models


@node_factory
def make_search(dataset: str, models: Sequence[str]) -> Callable[..., tuple[dict[str, Any], pd.DataFrame]]:
    """Return the node function that searches the options of all models; it takes ``options_<model>`` of each."""

    def search_models(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, settings: DatasetParameters, recipes: Recipes,
        run: RunParameters, tuning: TuningParameters, leaderboard: LeaderboardParameters, **options: Any,
    ) -> tuple[dict[str, Any], pd.DataFrame]:  # fmt: skip
        """Return what was found by model key, and the table of all trials."""
        from deep_interest.training.runs import Data, Experiment, choose_recipe
        from deep_interest.tuning.known_options import known_options, known_result
        from deep_interest.tuning.leaderboard import leaderboard_search, result_of, search_all, trials_of

        data = Data(log, features, samples)
        recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
        known = known_options(recipes.root, leaderboard.known, recipe, models)
        searches = {}
        for model in (key for key in models if key not in known):
            experiment = Experiment(
                dataset=dataset, model=model, options=_options(model, options[f"{OPTIONS_PREFIX}{model}"]),
                recipe=recipe, seeds=(tuning.fit_seed,), run=run, variant=LEADERBOARD_SUFFIX,
            )  # fmt: skip
            searches[model] = leaderboard_search(
                experiment, data, leaderboard=leaderboard, tuning=tuning,
                recipe=run.recipe or settings.recipe, of_dataset=settings.training,
            )  # fmt: skip
        studies = search_all(searches, data, refits=len(run.seeds or leaderboard.seeds))
        fingerprint = data.fingerprint()
        found = {
            model: result_of(searches[model], studies.get(model), fingerprint) if model in searches
            else known_result(
                known[model], dataset=dataset, model=model, recipe=run.recipe or settings.recipe, data=fingerprint,
                known=str(leaderboard.known),
            )
            for model in models
        }  # fmt: skip
        return found, trials_of(searches, studies)

    return search_models


def _options(model: str, value: Any) -> RowOptions:
    """Return the options of a model, which Kedro has validated if another node of the run declares their type."""
    return RowOptions(options_type(model).model_validate(getattr(value, "root", value)).root)


@node_factory
def make_compare(dataset: str, models: Sequence[str]) -> Callable[..., pd.DataFrame]:
    """Return the node function that compares the tuned models."""

    def compare_tuned(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, evaluation: EvaluationParameters,
        trained_models: TrainedModels, found: dict[str, Any],
    ) -> pd.DataFrame:  # fmt: skip
        """Return the table of the leaderboard."""
        from deep_interest.tuning.leaderboard_table import leaderboard_table

        require_current_data(dataset, trained_models, log, features, samples)
        variants = {model: f"{model}{LEADERBOARD_SUFFIX}" for model in models}
        return leaderboard_table(
            select_test(samples), {model: model_runs(key, trained_models[key]) for model, key in variants.items()}, found,
            simple=[model for model in models if MODELS[model].family == "simple"], minimum=evaluation,
        )  # fmt: skip

    return compare_tuned


def tabulate_expected_best(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the expected best validation GAUC of each model by number of trials."""
    from deep_interest.tuning.expected_best import expected_best_table

    return expected_best_table(trials)


@node_factory
def make_recipe(dataset: str) -> Callable[..., dict[str, Any]]:
    """Return the node function that writes the best options as a recipe."""

    def write_recipe(
        found: dict[str, Any], settings: DatasetParameters, recipes: Recipes, run: RunParameters
    ) -> dict[str, Any]:
        """Return a block of parameters with the recipe ``<dataset>_leaderboard``.

        It extends the recipe of the search, unless that has the same name, as in a second search.
        """
        from deep_interest.training.runs import choose_recipe
        from deep_interest.tuning.leaderboard_table import as_recipe

        name, extended = f"{dataset}{LEADERBOARD_SUFFIX}", run.recipe or settings.recipe
        if extended == name:
            complete = choose_recipe(recipes.root, run, default=extended, training=settings.training)
            before = complete.model_dump(mode="json", exclude_defaults=True)
        else:
            of_dataset = settings.training if run.recipe is None else {}
            before = {"extends": extended} | ({"training": of_dataset} if of_dataset else {})
        return {"recipes": {name: as_recipe(before, found)}}

    return write_recipe


@node_factory
def make_page(dataset: str) -> Callable[..., str]:
    """Return the node function that writes the page of a leaderboard."""

    def write_page(
        results: pd.DataFrame, found: dict[str, Any], expected: pd.DataFrame, samples: pd.DataFrame,
        settings: DatasetParameters, leaderboard: LeaderboardParameters,
    ) -> str:  # fmt: skip
        """Return the Markdown page."""
        from deep_interest.reporting.leaderboard import Budget, leaderboard_markdown

        test = select_test(samples)
        return leaderboard_markdown(
            results, found, expected, title=f"{settings.title}: {LEADERBOARD}", dataset=dataset,
            protocol=settings.protocol.name, test_samples=len(test), test_users=test["user"].nunique(),
            budget=Budget(leaderboard.n_trials, leaderboard.processor_minutes),
        )  # fmt: skip

    return write_page


def draw_results(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw the GAUC of the tuned models."""
    from deep_interest.figures.comparison import results_chart

    return results_chart(results, title=f"{dataset.title}: {LEADERBOARD}")


def draw_expected_best(expected: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw the expected best validation GAUC by number of trials."""
    from deep_interest.figures.leaderboard import expected_best_chart

    return expected_best_chart(
        expected, title=f"{dataset.title}: expected best validation GAUC by number of trials"
    )


def draw_importance(found: dict[str, Any], dataset: DatasetParameters) -> Any:
    """Draw the importance of the options of each model."""
    from deep_interest.figures.leaderboard import importance_chart

    return importance_chart(found, title=f"{dataset.title}: importance of the options")


def draw_cost(results: pd.DataFrame, dataset: DatasetParameters) -> Any:
    """Draw GAUC against the processor time of the search."""
    from deep_interest.figures.leaderboard import cost_chart

    return cost_chart(results, title=f"{dataset.title}: GAUC and cost of the search")
