"""The study of one experiment: the trials from which an interrupted search resumes, and what they have found."""

import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna.trial import FrozenTrial, TrialState

from deep_interest.errors import InputError
from deep_interest.training.runs import Experiment
from deep_interest.tuning.parameters import SearchRange, TuningParameters
from deep_interest.tuning.storage import exclusive, file_storage, server_storage

logger = logging.getLogger(__name__)

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
RETRIED, DIVERGED, EVALUATIONS = "retry_of", "diverged", "evaluations"
SECONDS, PROCESSOR_SECONDS = "train_seconds", "processor_seconds"
SEARCHED = "searched"  # of a study: the dotted names of its options
MIN_TRIALS_FOR_IMPORTANCE = 4


@dataclass(frozen=True)
class Search:
    """The hyperparameter search of one experiment.

    Attributes:
        experiment: dataset and model, and how the model is trained with untuned options.
        tuning: what to search and for how long.
        recipe: name of the experiment's recipe.
    """

    experiment: Experiment
    tuning: TuningParameters
    recipe: str

    @property
    def folder(self) -> Path:
        """Folder of the study."""
        experiment = self.experiment
        return Path(experiment.run.workspace) / experiment.dataset / experiment.model_variant / "tuning"

    def until(self, n_trials: int) -> "Search":
        """Return the search with at most ``n_trials`` trials."""
        limited = min(n_trials, self.tuning.n_trials)
        return replace(self, tuning=self.tuning.model_copy(update={"n_trials": limited}))

    def exclusive(self) -> AbstractContextManager[None]:
        """Let one worker at a time count and start trials."""
        return exclusive(self.tuning.storage, self.experiment.name, self.folder)

    @property
    def ranges(self) -> dict[str, SearchRange]:
        """Search ranges by dotted name of the option."""
        return self.tuning.ranges_of(self.experiment.model)


def open_study(search: Search) -> optuna.Study:
    """Open the study of a search, or create it.

    Raises:
        InputError: the server of a shared study cannot be reached.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tuning = search.tuning
    storage = (
        file_storage(search.folder / "study.db")
        if tuning.storage is None
        else server_storage(tuning.storage, lost_after=tuning.lost_after_seconds, when_lost=repeat)
    )
    pruner = optuna.pruners.MedianPruner(
        n_startup_trials=tuning.unpruned_trials, n_warmup_steps=tuning.unpruned_evaluations
    )
    return optuna.create_study(
        study_name=search.experiment.name, storage=storage, load_if_exists=True, direction="maximize",
        pruner=pruner if tuning.pruning else optuna.pruners.NopPruner(),
    )  # fmt: skip


def repeat(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue a trial that did not finish, with the same options.

    A trial whose options were not all drawn is not queued: training had not started, and the next draw is the same.
    """
    if set(trial.params) == set(study.user_attrs[SEARCHED]):
        study.enqueue_trial(trial.params, user_attrs={RETRIED: trial.user_attrs.get(RETRIED, trial.number)})
        logger.info("trial %d was interrupted and will be repeated", trial.number)


def finished_trials(study: optuna.Study, limit: int | None = None) -> list[FrozenTrial]:
    """Return the finished trials in the order in which they were started.

    Args:
        study: the study.
        limit: number of first finished trials to return; all if None.
    """
    return study.get_trials(deepcopy=False, states=FINISHED)[:limit]


def best_values(study: optuna.Study, search: Search, *, limit: int | None = None) -> dict[str, Any]:
    """Return the result of a search as JSON values: the contents of ``tuned.json``, which ``training.tuned`` reads.

    Args:
        study: the study.
        search: what was searched.
        limit: number of first finished trials to choose from; all if None.

    Raises:
        InputError: no trial was completed.
    """
    finished = finished_trials(study, limit)
    complete = [trial for trial in finished if trial.state == TrialState.COMPLETE]
    if not complete:
        raise InputError(
            f"{search.experiment.name}: no trial ended with a finite loss; use lower values in tuning.ranges"
        )
    best = max(complete, key=lambda trial: (trial.value, -trial.number))
    values = {name: search.ranges[name].value_of(drawn) for name, drawn in best.params.items()}
    return {
        "dataset": search.experiment.dataset, "model": search.experiment.model, "recipe": search.recipe,
        "data": study.user_attrs["data"], "values": values, "validation_gauc": best.value, "trial": best.number,
        "finished": len(finished), "pruned": len(finished) - len(complete),
        "ranges": {name: searched.model_dump(exclude_defaults=True) for name, searched in search.ranges.items()},
        "seed": search.tuning.seed, "fit_seed": search.tuning.fit_seed, "workers": search.tuning.workers,
        "importance": importance(complete),
    }  # fmt: skip


def importance(complete: Sequence[FrozenTrial]) -> dict[str, float]:
    """Return the share of the GAUC's variance over complete trials that each option explains (fANOVA).

    Returns:
        Shares by dotted name of the option; empty for fewer than two options or four complete trials, and if all trials have
        the same GAUC.
    """
    options = {name for trial in complete for name in trial.params}
    distinct = {trial.value for trial in complete}
    if len(complete) < MIN_TRIALS_FOR_IMPORTANCE or len(options) < 2 or len(distinct) < 2:
        return {}
    study = optuna.create_study(direction="maximize")
    study.add_trials(complete)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}


def trial_table(study: optuna.Study, trials: Sequence[FrozenTrial] | None = None) -> pd.DataFrame:
    """Return one row per trial.

    Args:
        study: the study.
        trials: trials of the table; all if None.

    Returns:
        Columns ``trial``, ``state``, ``validation_gauc`` (for a pruned trial the best before it was stopped), the options,
        ``evaluations``, ``train_seconds``, ``processor_seconds`` (training and evaluation), ``retry_of`` (the interrupted trial that
        this one repeats) and ``diverged``.
    """
    rows = [
        {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            "validation_gauc": best_so_far(trial),
            **trial.params,
            "evaluations": trial.user_attrs.get(EVALUATIONS),
            "train_seconds": trial.user_attrs.get(SECONDS),
            "processor_seconds": trial.user_attrs.get(PROCESSOR_SECONDS),
            "retry_of": trial.user_attrs.get(RETRIED),
            "diverged": trial.user_attrs.get(DIVERGED, False),
        }
        for trial in (study.get_trials(deepcopy=False) if trials is None else trials)
    ]
    return pd.DataFrame(rows)


def best_so_far(trial: FrozenTrial) -> float:
    """Return the highest validation GAUC of a finished trial; NaN for other trials."""
    return max(trial.intermediate_values.values(), default=math.nan) if trial.state in FINISHED else math.nan
