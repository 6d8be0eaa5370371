"""Searches of all models of a table with one budget: round by round, so that all of them have the same number of trials."""

import logging
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import optuna
import pandas as pd

from deep_interest.training.experiment import Experiment
from deep_interest.training.log_lines import format_duration
from deep_interest.training.runs import Data
from deep_interest.tuning.parameters import TuningParameters
from deep_interest.tuning.policy import LeaderboardParameters, first_values
from deep_interest.tuning.search import is_finished, processor_seconds, tune
from deep_interest.tuning.study import (
    Search,
    best_so_far,
    best_values,
    finished_trials,
    open_study,
    trial_table,
)

logger = logging.getLogger(__name__)

TRIALS_PER_ROUND = 4  # of a model and worker


def leaderboard_search(
    experiment: Experiment, data: Data, *, leaderboard: LeaderboardParameters, tuning: TuningParameters,
    recipe: str, of_dataset: Mapping[str, Any],
) -> Search:  # fmt: skip
    """Return the search of one model of a leaderboard.

    Args:
        experiment: dataset and model, with the recipe before the search.
        data: training and validation samples.
        leaderboard: budget and search space.
        tuning: how trials are drawn, pruned, stored and shared.
        recipe: name of the recipe.
        of_dataset: training options that the dataset's block sets.
    """
    names = leaderboard.searched_of(experiment, schema=data.features.schema, of_dataset=of_dataset)
    settings = TuningParameters(
        **tuning.model_dump(exclude={"n_trials", "processor_minutes", "ranges", "searched", "models"}),
        n_trials=leaderboard.n_trials, processor_minutes=leaderboard.processor_minutes,
        ranges=leaderboard.ranges, searched=leaderboard.searched, models={experiment.model: names},
    )  # fmt: skip
    return Search(experiment, settings, recipe)


Studies = Mapping[str, optuna.Study]
"""Studies by model key; a model without options to tune has none."""


def search_all(searches: Mapping[str, Search], data: Data, *, refits: int) -> Studies:
    """Run the trials of all models, a few of each model in turn, until each has its budget.

    Finished trials are never repeated: a killed run resumes where it stopped. The first trial of a model has the recipe's own
    options, or the nearest values of their ranges. Models draw the same values of the options that they share in the random trials.

    Args:
        searches: searches by model key; a search without options has no trials.
        data: training and validation samples.
        refits: number of fits of each model that follow, for the estimate of the time that is left.

    Returns:
        The studies.
    """
    searched = {model: search for model, search in searches.items() if search.ranges}
    studies = {model: _study_with_first_trial(search) for model, search in searched.items()}
    if not searched:
        return studies
    n_trials = max(search.tuning.n_trials for search in searched.values())
    size = TRIALS_PER_ROUND * max(search.tuning.workers for search in searched.values())
    for until in [*range(size, n_trials, size), n_trials]:
        for model, search in searched.items():
            part = search.until(until)
            if not is_finished(studies[model], part):
                tune(part, data)
                logger.info("%s", progress_line(searched, studies, model, refits=refits))
    return studies


def _study_with_first_trial(search: Search) -> optuna.Study:
    """Open the study of a search; in a new one, queue the trial with the recipe's own options."""
    search.folder.mkdir(parents=True, exist_ok=True)
    with search.exclusive():
        study = open_study(search)
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(first_values(search.experiment, search.ranges))
    return study


def result_of(search: Search, study: optuna.Study | None, data: str) -> dict[str, Any]:
    """Return what the search of a model has found, as JSON values.

    Args:
        search: the search.
        study: its study; None if there was nothing to search, and the values are empty.
        data: fingerprint of the data.

    Returns:
        The values of `study.best_values`, the validation GAUC of the first trial, and the cost of the trials.
    """
    if study is None:
        return {
            "dataset": search.experiment.dataset, "model": search.experiment.model, "recipe": search.recipe, "data": data,
            "values": {}, "validation_gauc": None, "first_gauc": None, "finished": 0, "pruned": 0, "processor_seconds": 0.0,
            "ranges": {}, "importance": {},
        }  # fmt: skip
    n_trials = search.tuning.n_trials
    first = finished_trials(study, 1)
    return best_values(study, search, limit=n_trials) | {
        "first_gauc": best_so_far(first[0]) if first else None,
        "processor_seconds": processor_seconds(study, n_trials),
    }


def trials_of(searches: Mapping[str, Search], studies: Studies) -> pd.DataFrame:
    """Return the trials of all models that count, one row per trial: the model, and the columns of `study.trial_table`.

    ``trial`` counts the finished trials of a model from 0, so that the table does not depend on interruptions.
    """
    tables = []
    for model, study in studies.items():
        table = trial_table(study, finished_trials(study, searches[model].tuning.n_trials))
        tables.append(table.drop(columns="retry_of").assign(model=model, trial=range(len(table))))
    columns = ["model", "trial", "state", "validation_gauc"]
    if not tables:
        return pd.DataFrame(columns=columns)
    trials = pd.concat(tables, ignore_index=True)
    return trials[[*columns, *(name for name in trials if name not in columns)]]


@dataclass(frozen=True)
class _Timing:
    """Finished trials of a model and their wall-clock seconds.

    Attributes:
        finished: number of finished trials.
        remaining: number of trials that its budget still allows.
        seconds: mean seconds of a trial; NaN if none is finished.
        complete_seconds: mean seconds of a trial that was not pruned.
    """

    finished: int
    remaining: int
    seconds: float
    complete_seconds: float


def progress_line(searches: Mapping[str, Search], studies: Studies, model: str, *, refits: int) -> str:
    """Return how far a leaderboard is, such as ``shop · leaderboard · din 8 of 24 trials · all models 120 of 360 · about 20 min left``.

    Args:
        searches: searches by model key.
        studies: their studies.
        model: the model whose trials were run last.
        refits: number of fits of each model that follow.
    """
    timings = {key: _timing(search, studies[key]) for key, search in searches.items()}
    search, timing = searches[model], timings[model]
    finished = sum(each.finished for each in timings.values())
    total = sum(each.finished + each.remaining for each in timings.values())
    left = seconds_left(list(timings.values()), workers=search.tuning.workers, refits=refits)
    return (
        f"{search.experiment.dataset} · leaderboard · {model} {timing.finished} of {timing.finished + timing.remaining} trials · "
        f"all models {finished} of {total} · about {format_duration(left)} left"
    )


def seconds_left(timings: list[_Timing], *, workers: int, refits: int) -> float:
    """Estimate the seconds that the remaining trials and the final fits take; a model without a trial takes the median."""
    known = [timing for timing in timings if timing.finished]
    typical = statistics.median(timing.seconds for timing in known) if known else 0.0
    seconds = 0.0
    for timing in timings:
        trial = timing.seconds if timing.finished else typical
        fit = timing.complete_seconds if timing.finished else typical
        seconds += timing.remaining * trial + refits * fit
    return seconds / workers


def _timing(search: Search, study: optuna.Study) -> _Timing:
    tuning = search.tuning
    trials = finished_trials(study, tuning.n_trials)
    seconds = [_duration(trial) for trial in trials]
    complete = [_duration(trial) for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    remaining = max(0, tuning.n_trials - len(trials))
    if tuning.processor_minutes is not None and trials:
        used = processor_seconds(study, tuning.n_trials)
        affordable = (60 * tuning.processor_minutes - used) / max(used / len(trials), 1e-9)
        remaining = min(remaining, max(0, round(affordable)))
    mean = statistics.fmean(seconds) if seconds else float("nan")
    return _Timing(len(trials), remaining, mean, statistics.fmean(complete) if complete else mean)


def _duration(trial: optuna.trial.FrozenTrial) -> float:
    return trial.duration.total_seconds() if trial.duration else 0.0
