"""A row's study: where it lies (an SQLite file from which a stopped search goes on) and what its trials have shown."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna.trial import FrozenTrial, TrialState

from deep_interest.errors import InputError
from deep_interest.training.runs import Experiment
from deep_interest.tuning.parameters import SearchRange, TuningParameters

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
RETRIED, DIVERGED, SECONDS, EPOCHS = "retry_of", "diverged", "train_seconds", "evaluations"


@dataclass(frozen=True)
class Search:
    """What is searched for one row, and where its study lies.

    Attributes:
        experiment: the row and how it is fitted before anything is tuned.
        tuning: how to search.
        recipe: name of the experiment's recipe.
    """

    experiment: Experiment
    tuning: TuningParameters
    recipe: str

    @property
    def folder(self) -> Path:
        return (
            Path(self.experiment.run.workspace) / self.experiment.dataset / self.experiment.model / "tuning"
        )

    @property
    def ranges(self) -> dict[str, SearchRange]:
        return self.tuning.ranges_of(self.experiment.model)


def open_study(search: Search) -> optuna.Study:
    """The row's study, new if there is none."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{search.folder / 'study.db'}", engine_kwargs={"connect_args": {"timeout": 60}}
    )
    settings = search.tuning
    pruner = optuna.pruners.MedianPruner(
        n_startup_trials=settings.unpruned_trials, n_warmup_steps=settings.unpruned_evaluations
    )
    return optuna.create_study(
        study_name=search.experiment.name, storage=storage, load_if_exists=True, direction="maximize",
        pruner=pruner if settings.pruning else optuna.pruners.NopPruner(),
    )  # fmt: skip


def best_values(study: optuna.Study, search: Search) -> dict[str, Any]:
    """What the search has found, as plain values: the file that ``training.tuned`` takes.

    Raises:
        InputError: no trial was completed.
    """
    complete = study.get_trials(states=(TrialState.COMPLETE,))
    if not complete:
        raise InputError(
            f"{search.experiment.name}: none of the trials ended with a finite loss; lower the ranges in tuning.ranges"
        )
    best = max(complete, key=lambda trial: (trial.value, -trial.number))
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    return {
        "dataset": search.experiment.dataset, "model": search.experiment.model, "recipe": search.recipe, "data": study.user_attrs["data"],
        "values": best.params, "validation_gauc": best.value, "trial": best.number,
        "finished": sum(state in FINISHED for state in states), "pruned": states.count(TrialState.PRUNED),
        "ranges": {name: found.model_dump(exclude_defaults=True) for name, found in search.ranges.items()},
        "seed": search.tuning.seed, "fit_seed": search.tuning.fit_seed, "workers": search.tuning.workers,
        "importance": importance(study),
    }  # fmt: skip


def importance(study: optuna.Study) -> dict[str, float]:
    """Share of the GAUC's variance over the trials that each option explains (fANOVA); empty below two options or four trials."""
    complete = study.get_trials(states=(TrialState.COMPLETE,), deepcopy=False)
    varied = {name for trial in complete for name in trial.params}
    if len(complete) < 4 or len(varied) < 2 or len({trial.value for trial in complete}) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return {
        name: float(value)
        for name, value in optuna.importance.get_param_importances(study, evaluator=evaluator).items()
    }


def trial_table(study: optuna.Study) -> pd.DataFrame:
    """One row a trial: number, state, GAUC (a pruned trial's: its best so far), options, evaluations, seconds of training."""
    rows = [
        {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            "validation_gauc": best_so_far(trial),
            **trial.params,
            "evaluations": trial.user_attrs.get(EPOCHS),
            "train_seconds": trial.user_attrs.get(SECONDS),
            "retry_of": trial.user_attrs.get(RETRIED),
            "diverged": trial.user_attrs.get(DIVERGED, False),
        }
        for trial in study.get_trials(deepcopy=False)
    ]
    return pd.DataFrame(rows)


def best_so_far(trial: FrozenTrial) -> float:
    """The highest validation GAUC of a finished trial's evaluations, else NaN."""
    return max(trial.intermediate_values.values(), default=math.nan) if trial.state in FINISHED else math.nan
