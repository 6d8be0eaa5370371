"""Retrain on past nights with each choice about delayed clicks, and compare the choices with final labels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.experiments import DELAYED_CLICKS
from deep_interest.pipelines.backtest.nodes import check
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.days import read_days
from deep_interest.retraining.parameters import BacktestParameters, RetrainingParameters
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters


@node_factory
def make_replay(dataset: str) -> Callable[..., tuple[pd.DataFrame, dict[str, str]]]:
    """Return the node function that replays the nights of a dataset."""

    def replay(
        days: Path, settings: DatasetParameters, parameters: BacktestParameters, models: dict[str, Any], recipes: Recipes,
        run: RunParameters, retraining: RetrainingParameters,
    ) -> tuple[pd.DataFrame, dict[str, str]]:  # fmt: skip
        """Return the costs of each choice, and the days that the data checks reject with their reasons."""
        from deep_interest.retraining.delay_backtest import (
            NightlyFits,
            choices_of,
            days_to_judge,
            replay_nights,
        )
        from deep_interest.retraining.delay_table import cost_table
        from deep_interest.retraining.runs import retraining_experiment

        reading = reading_of(settings)
        if not reading.source.has_click_times:
            raise InputError(
                f"{DELAYED_CLICKS}.{dataset}: the impressions do not say when they were clicked; name the column in datasets.{dataset}.source."
                "impressions.click_time (the simulated shop has it with simulation.click_delays.mean_hours=12)"
            )
        checked = check(days, settings, retraining)
        accepted, model = checked["accepted"], parameters.model
        experiment = retraining_experiment(
            dataset, model, RowOptions(models[model]), settings, recipes, run, retraining
        )
        fits = NightlyFits(
            experiment, retraining, settings.protocol, settings.features, reading.source.time_zone,
            Path(run.workspace) / dataset / model / DELAYED_CLICKS,
        )  # fmt: skip
        log = read_days(days, accepted, reading)
        judged = days_to_judge(log, accepted, fits, warm_up=parameters.warm_up_days)
        choices = choices_of(retraining.delayed_clicks)
        nights = list(replay_nights(log, accepted, judged, choices, fits, seeds=parameters.seeds))
        return cost_table(nights, choices), checked["rejected"]

    return replay


def summarize(costs: pd.DataFrame, rejected: dict[str, str]) -> tuple[str, Any]:
    """Return the page and the chart."""
    from deep_interest.figures.delayed_clicks import delayed_clicks_chart
    from deep_interest.retraining.delay_table import ALL_NIGHTS, delay_page

    return delay_page(costs, rejected), delayed_clicks_chart(
        costs[costs["day"] != ALL_NIGHTS], costs[costs["day"] == ALL_NIGHTS]
    )
