"""Fits of all settings; finished fits are kept, so that a killed run resumes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.training.content import Data
from deep_interest.training.experiment import Experiment
from deep_interest.training.parallel import map_seeds, usable_cores
from deep_interest.training.parameters import RunParameters
from deep_interest.training.runs import checkpoint_of, fit_seed, predict_experiment, prepare_device
from deep_interest.worth.settings import Axis, Setting, experiment_of, samples_of, settings_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One fit.

    Attributes:
        setting: its setting.
        seed: its seed.
    """

    setting: Setting
    seed: int


def fit_settings(
    experiment: Experiment, data: Data, axes: Sequence[Axis]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fit every setting with every seed, and score the test set once with each fit.

    Args:
        experiment: the model, its options and seeds.
        data: samples, features and log.
        axes: axes of the curves.

    Returns:
        One row per axis, value and seed: ``axis``, ``value``, ``setting`` (key of the fits), ``seed``, ``samples`` and ``users`` of the
        training set, ``validation_gauc``, ``train_seconds``. And the scores of the test samples, ``<setting>_seed_<k>``, with the
        fingerprint of the data as attribute.
    """
    settings = list(settings_of(axes))
    tasks = [Task(setting, seed) for setting in settings for seed in experiment.seeds]
    logger.info("%s · worth of data · %d fits of %d settings", experiment.name, len(tasks), len(settings))
    results = map_seeds(
        _fit, (experiment, data, tasks), range(len(tasks)), processes=_processes(experiment.run)
    )
    by_task = {(task.setting.key, task.seed): row for task, (row, _) in zip(tasks, results, strict=True)}
    rows = [
        {"axis": axis.name, "value": value, "setting": key, "seed": seed} | by_task[key, seed]
        for axis in axes
        for value in axis.values
        for key in [Setting(axis, value).key]
        for seed in experiment.seeds
    ]
    test = data.samples.loc[data.samples["split"] == "test", ["user", "item"]].reset_index(drop=True)
    scores = {
        f"{task.setting.key}_seed_{task.seed}": values
        for task, (_, values) in zip(tasks, results, strict=True)
    }
    table = test.assign(**scores)
    table.attrs["data"] = data.fingerprint()
    return pd.DataFrame(rows), table


def _fit(
    experiment: Experiment, data: Data, tasks: Sequence[Task], index: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit one task, or load the fit if it is finished; return what the table says of it, and the scores of the test samples."""
    task = tasks[index]
    chosen = replace(experiment_of(experiment, task.setting), seeds=(task.seed,))
    part = replace(data, samples=samples_of(data.samples, task.setting, seed=task.seed))
    fit = fit_seed(chosen, part, task.seed)
    checkpoint, curves = checkpoint_of(chosen, data.features.schema, part.fingerprint(), chosen.seeds, [fit])
    scores = predict_experiment(checkpoint, chosen.run, part)[f"seed_{task.seed}"].to_numpy()
    train = part.samples[part.samples["split"] == "train"]
    best = curves["validation_gauc"].max() if "validation_gauc" in curves else np.nan
    row = {
        "samples": len(train), "users": train["user"].nunique(), "validation_gauc": float(best),
        "train_seconds": float(curves["seconds"].iloc[-1]),
    }  # fmt: skip
    return row, scores


def _processes(run: RunParameters) -> int:
    """Return the number of parallel fits: as configured or one per core; one on a GPU."""
    if prepare_device(run).type != "cpu":
        return 1
    return run.processes or max(1, usable_cores() // (run.threads or 1))
