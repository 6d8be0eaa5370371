"""Search a row's options; the nodes see training and validation samples alone."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.train.nodes import options_of, without_test
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.tuning.parameters import TuningParameters


def hide_test(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples without the test set."""
    return without_test(samples)


def make_tune(dataset: str, model: str) -> Callable[..., tuple[dict[str, Any], pd.DataFrame]]:
    """The searching node's function of one experiment."""
    options_type = options_of(model)

    def tune_row(
        log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame, options: options_type,
        settings: DatasetParameters, recipes: Recipes, run: RunParameters, tuning: TuningParameters,
    ) -> tuple[dict[str, Any], pd.DataFrame]:  # fmt: skip
        """The best values and the table of all trials."""
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

    return tune_row


def make_figure(model: str) -> Callable[..., Any]:
    """The drawing node's function of one row."""

    def draw_tuning(trials: pd.DataFrame, tuned: dict[str, Any]) -> Any:
        """GAUC by trial and by each option, and how much each option matters."""
        from deep_interest.figures.tuning import tuning_chart

        return tuning_chart(trials, tuned, model=model)

    return draw_tuning
