"""The study of one experiment: an SQLite file from which an interrupted search resumes, and what its trials have found."""

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
RETRIED, DIVERGED, SECONDS, EVALUATIONS = "retry_of", "diverged", "train_seconds", "evaluations"
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
        return Path(experiment.run.workspace) / experiment.dataset / experiment.model / "tuning"

    @property
    def ranges(self) -> dict[str, SearchRange]:
        """Search ranges by dotted name of the option."""
        return self.tuning.ranges_of(self.experiment.model)


def open_study(search: Search) -> optuna.Study:
    """Open the study of a search, or create it."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{search.folder / 'study.db'}", engine_kwargs={"connect_args": {"timeout": 60}}
    )
    tuning = search.tuning
    pruner = optuna.pruners.MedianPruner(
        n_startup_trials=tuning.unpruned_trials, n_warmup_steps=tuning.unpruned_evaluations
    )
    return optuna.create_study(
        study_name=search.experiment.name, storage=storage, load_if_exists=True, direction="maximize",
        pruner=pruner if tuning.pruning else optuna.pruners.NopPruner(),
    )  # fmt: skip


def best_values(study: optuna.Study, search: Search) -> dict[str, Any]:
    """Return the result of a search as JSON values: the contents of ``tuned.json``, which ``training.tuned`` reads.

    Raises:
        InputError: no trial was completed.
    """
    complete = study.get_trials(states=(TrialState.COMPLETE,))
    if not complete:
        raise InputError(
            f"{search.experiment.name}: no trial ended with a finite loss; use lower values in tuning.ranges"
        )
    best = max(complete, key=lambda trial: (trial.value, -trial.number))
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    return {
        "dataset": search.experiment.dataset, "model": search.experiment.model, "recipe": search.recipe,
        "data": study.user_attrs["data"], "values": best.params, "validation_gauc": best.value, "trial": best.number,
        "finished": sum(state in FINISHED for state in states), "pruned": states.count(TrialState.PRUNED),
        "ranges": {name: searched.model_dump(exclude_defaults=True) for name, searched in search.ranges.items()},
        "seed": search.tuning.seed, "fit_seed": search.tuning.fit_seed, "workers": search.tuning.workers,
        "importance": importance(study),
    }  # fmt: skip


def importance(study: optuna.Study) -> dict[str, float]:
    """Return the share of the GAUC's variance over trials that each option explains (fANOVA).

    Returns:
        Shares by dotted name of the option; empty for fewer than two options or four complete trials, and if all trials have
        the same GAUC.
    """
    complete = study.get_trials(states=(TrialState.COMPLETE,), deepcopy=False)
    options = {name for trial in complete for name in trial.params}
    distinct = {trial.value for trial in complete}
    if len(complete) < MIN_TRIALS_FOR_IMPORTANCE or len(options) < 2 or len(distinct) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}


def trial_table(study: optuna.Study) -> pd.DataFrame:
    """Return one row per trial.

    Returns:
        Columns ``trial``, ``state``, ``validation_gauc`` (for a pruned trial the best before it was stopped), the options,
        ``evaluations``, ``train_seconds``, ``retry_of`` (the interrupted trial that this one repeats) and ``diverged``.
    """
    rows = [
        {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            "validation_gauc": best_so_far(trial),
            **trial.params,
            "evaluations": trial.user_attrs.get(EVALUATIONS),
            "train_seconds": trial.user_attrs.get(SECONDS),
            "retry_of": trial.user_attrs.get(RETRIED),
            "diverged": trial.user_attrs.get(DIVERGED, False),
        }
        for trial in study.get_trials(deepcopy=False)
    ]
    return pd.DataFrame(rows)


def best_so_far(trial: FrozenTrial) -> float:
    """Return the highest validation GAUC of a finished trial; NaN for other trials."""
    return max(trial.intermediate_values.values(), default=math.nan) if trial.state in FINISHED else math.nan
