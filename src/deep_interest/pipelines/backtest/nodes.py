"""Check the days, replay the valid ones, and compare the gain and cost of retraining strategies."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.checks import BadDayError, Record, check_days
from deep_interest.retraining.days import list_days, read_days
from deep_interest.retraining.parameters import BacktestParameters, RetrainingParameters
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters

logger = logging.getLogger(__name__)


def check(days: Path, settings: DatasetParameters, retraining: RetrainingParameters) -> dict[str, Any]:
    """Return the days that retraining would accept, and the reasons for rejecting the others."""
    records: dict[str, Record] = {}
    rejected: dict[str, str] = {}
    for day in list_days(days):
        try:
            records |= check_days(days, [day], records, reading_of(settings), retraining.days, None)
        except BadDayError as error:
            rejected[day] = str(error).splitlines()[1].strip().removeprefix(f"{day}: ")
            logger.warning("%s", error)
    return {"accepted": list(records), "rejected": rejected}


def replay(
    days: Path, checked: dict[str, Any], settings: DatasetParameters, parameters: BacktestParameters,
    models: dict[str, Any], recipes: Recipes, run: RunParameters, retraining: RetrainingParameters,
) -> pd.DataFrame:  # fmt: skip
    """Return GAUC and cost of every strategy on every day."""
    from deep_interest.retraining.backtest import backtest
    from deep_interest.retraining.runs import retraining_experiment

    experiment = retraining_experiment(
        "simulated",
        parameters.model,
        RowOptions(models[parameters.model]),
        settings,
        recipes,
        run,
        retraining,
    )
    return backtest(
        partial(read_days, days, reading=reading_of(settings)), checked["accepted"], experiment,
        warm_up=parameters.warm_up_days, seeds=parameters.seeds, retraining=retraining, protocol=settings.protocol, features=settings.features,
        workspace=Path(run.workspace) / "simulated" / parameters.model / "backtest",
    )  # fmt: skip


def summarize(results: pd.DataFrame, checked: dict[str, Any]) -> tuple[pd.DataFrame, str, Any]:
    """Return the table, the page and the chart."""
    from deep_interest.figures.backtest import backtest_chart
    from deep_interest.retraining.backtest import backtest_page, backtest_summary

    summary = backtest_summary(results)
    return (
        summary,
        backtest_page(summary, results, checked["rejected"]),
        backtest_chart(results, summary, checked["rejected"]),
    )
