"""Search of another library's options with Optuna, over the ranges in which the leaderboard searches ours."""

from collections.abc import Callable, Mapping
from typing import Any

import optuna
import yaml
from environments import PROJECT

Options = dict[str, Any]

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


def search(value: Callable[[Options], float], *, trials: int) -> tuple[Options, list[float]]:
    """Maximise ``value`` in a number of trials, of which the first has the defaults.

    The search draws the same options whenever the values are the same: if they come from files, a search that was stopped goes on.

    Returns:
        The best options, and the value of every trial.
    """
    found, tried = ranges(), []

    def objective(trial: optuna.Trial) -> float:
        tried.append({name: draw(trial, name, bounds) for name, bounds in found.items()})
        return value(tried[-1])

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial(
        {
            name: bounds["choices"].index(DEFAULTS[name]) if "choices" in bounds else DEFAULTS[name]
            for name, bounds in found.items()
        }
    )
    study.optimize(objective, n_trials=trials)
    return tried[study.best_trial.number], [trial.value for trial in study.trials]
