"""Search the options of a model; the nodes only read training and validation samples."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.train.nodes import takes_options_of, without_test
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.tuning.parameters import TuningParameters


def hide_test(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples without the test set."""
    return without_test(samples)


@node_factory
def make_tune(dataset: str, model: str) -> Callable[..., tuple[dict[str, Any], pd.DataFrame]]:
    """Return the node function that searches the options of an experiment."""

    @takes_options_of(model)
    def tune_model(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, options: RowOptions,
        settings: DatasetParameters, recipes: Recipes, run: RunParameters, tuning: TuningParameters,
    ) -> tuple[dict[str, Any], pd.DataFrame]:  # fmt: skip
        """Return the best values and the table of all trials."""
        from deep_interest.training.runs import Data, Experiment, choose_recipe
        from deep_interest.tuning.search import tune
        from deep_interest.tuning.study import Search, best_values, trial_table

        recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
        experiment = Experiment(
            dataset=dataset, model=model, options=RowOptions(options.root), recipe=recipe,
            seeds=(tuning.fit_seed,), run=run,
        )  # fmt: skip
        search = Search(experiment, tuning, run.recipe or settings.recipe)
        study = tune(search, Data(log, features, samples))
        return best_values(study, search), trial_table(study)

    return tune_model


@node_factory
def make_figure(model: str) -> Callable[..., Any]:
    """Return the node function that draws the search of a model."""

    def draw_tuning(trials: pd.DataFrame, tuned: dict[str, Any]) -> Any:
        """Return the chart of GAUC by trial and by option, and the importance of each option."""
        from deep_interest.figures.tuning import tuning_chart

        return tuning_chart(trials, tuned, model=model)

    return draw_tuning
