"""Search of another library's options with Optuna, over the ranges in which the leaderboard searches ours."""

from collections.abc import Callable, Mapping
from typing import Any

import optuna
import yaml
from environments import PROJECT

from deep_interest.tuning.parameters import TuningParameters

Options = dict[str, Any]
Report = Callable[[int, float], None]
"""Takes the number of an epoch, from 0, and its value; raises `optuna.TrialPruned` if the trial shall end."""

DEFAULTS: Options = {"learning_rate": 0.001, "l2": 1e-6, "dim": 32, "hidden": [200, 80], "dropout": 0.0}
"""Options of the first trial."""
RANGES = {
    "learning_rate": ("training", "learning_rate"),
    "l2": ("training", "l2"),
    "dim": ("model", "embedding_dim"),
    "hidden": ("model", "hidden"),
    "dropout": ("model", "dropout"),
}
"""The leaderboard's range of each option."""


def ranges() -> dict[str, Mapping[str, Any]]:
    """The ranges of the options that a library's runner takes."""
    path = PROJECT / "conf/base/parameters/leaderboard.yml"
    found = yaml.safe_load(path.read_text())["leaderboard"]["ranges"]
    return {name: found[group][option] for name, (group, option) in RANGES.items()}


def draw(trial: optuna.Trial, name: str, bounds: Mapping[str, Any]) -> Any:
    """Draw an option; a choice is drawn by its index, since widths are lists."""
    if "choices" in bounds:
        return bounds["choices"][trial.suggest_int(name, 0, len(bounds["choices"]) - 1)]
    return trial.suggest_float(name, bounds["low"], bounds["high"], log=bounds.get("log", False))


def search(fit: Callable[[Options, Report], float], *, trials: int) -> tuple[Options, list[float]]:
    """Maximise the value of a fit in a number of trials, of which the first has the defaults.

    A trial ends early by the rule of our own searches, if its fit reports the values of its epochs. The search draws the same options whenever
    the values are the same: if they come from files, a search that was stopped goes on.

    Returns:
        The best options, and the value of every trial; of one that ended early the best before.
    """
    found, tried = ranges(), []

    def objective(trial: optuna.Trial) -> float:
        tried.append({name: draw(trial, name, bounds) for name, bounds in found.items()})

        def report(epoch: int, value: float) -> None:
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

        return fit(tried[-1], report)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), pruner=pruner()
    )
    study.enqueue_trial(
        {
            name: bounds["choices"].index(DEFAULTS[name]) if "choices" in bounds else DEFAULTS[name]
            for name, bounds in found.items()
        }
    )
    study.optimize(objective, n_trials=trials)
    return tried[study.best_trial.number], [
        max(trial.intermediate_values.values()) if trial.value is None else trial.value
        for trial in study.trials
    ]


def pruner() -> optuna.pruners.BasePruner:
    """The rule by which our own searches end a trial, with its defaults."""
    startup, warmup = (
        TuningParameters.model_fields[name].default for name in ("unpruned_trials", "unpruned_evaluations")
    )
    return optuna.pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)
