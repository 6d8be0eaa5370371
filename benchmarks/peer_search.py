"""Search of another library's options with Optuna, over the ranges in which the leaderboard searches ours."""

from collections.abc import Callable, Mapping
from typing import Any

import optuna
import yaml
from environments import PROJECT

Options = dict[str, Any]

SEARCHED = ("learning_rate", "l2", "dim", "hidden", "dropout")
DEFAULTS: Options = {"learning_rate": 0.001, "l2": 1e-6, "dim": 32, "hidden": [200, 80], "dropout": 0.0}
"""Options of the first trial."""
OURS = {"learning_rate": "training", "l2": "training", "dim": "model", "hidden": "model", "dropout": "model"}
NAMES = {"dim": "embedding_dim"}


def ranges() -> dict[str, Mapping[str, Any]]:
    """The leaderboard's ranges of the options that a library's runner takes."""
    path = PROJECT / "conf/base/parameters/leaderboard.yml"
    found = yaml.safe_load(path.read_text())["leaderboard"]["ranges"]
    return {name: found[group][NAMES.get(name, name)] for name, group in OURS.items()}


def distribution(bounds: Mapping[str, Any]) -> optuna.distributions.BaseDistribution:
    """The distribution of one range; choices that are lists are drawn by their index."""
    if "choices" in bounds:
        return optuna.distributions.IntDistribution(0, len(bounds["choices"]) - 1)
    return optuna.distributions.FloatDistribution(bounds["low"], bounds["high"], log=bounds.get("log", False))


def search(value: Callable[[Options], float], *, trials: int) -> tuple[Options, list[float]]:
    """Maximise ``value`` in a number of trials, of which the first has the defaults.

    The search draws the same options whenever the values are the same: if they come from files, a search that was stopped goes on.

    Returns:
        The best options, and the value of every trial.
    """
    found = ranges()
    distributions = {name: distribution(bounds) for name, bounds in found.items()}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, multivariate=True)
    )

    def options_of(drawn: Mapping[str, Any]) -> Options:
        return {
            name: found[name]["choices"][drawn[name]] if "choices" in found[name] else drawn[name]
            for name in SEARCHED
        }

    study.enqueue_trial(
        {
            name: list(found[name]["choices"]).index(DEFAULTS[name])
            if "choices" in found[name]
            else DEFAULTS[name]
            for name in SEARCHED
        }
    )
    for _ in range(trials):
        trial = study.ask(distributions)
        study.tell(trial, value(options_of(trial.params)))
    return options_of(study.best_params), [trial.value for trial in study.trials]
