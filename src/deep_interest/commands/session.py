"""Open the Kedro project from any of its folders."""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kedro.framework.context import KedroContext
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project

from deep_interest.errors import InputError
from deep_interest.experiments import MODELS, TUNED_SUFFIX, DatasetSpec, datasets_of


@contextmanager
def open_project(env: str | None = None, folder: Path | None = None) -> Iterator[KedroContext]:
    """Load the project that contains a folder; relative paths of its configuration refer to the project's root.

    Args:
        env: configuration environment; ``local`` if left out.
        folder: a folder of the project; the working directory if left out.

    Yields:
        The context: parameters and catalog.

    Raises:
        InputError: the folder is not in a Kedro project, or the environment does not exist.
    """
    start = folder or Path.cwd()
    project = find_kedro_project(start)
    if project is None:
        raise InputError(
            f"{start} is not in a Kedro project; change to the project's folder or one below it and run the command again"
        )
    bootstrap_project(project)
    logging.getLogger("kedro.pipeline.node").disabled = True  # it logs errors that the command reports itself
    session: Any = KedroSession.create(project, env=env, save_on_close=False)
    with session:
        yield session.load_context()


def require_dataset(context: KedroContext, name: str) -> DatasetSpec:
    """Look up a dataset of the configuration.

    Raises:
        InputError: there is no dataset of that name.
    """
    datasets = datasets_of(context.config_loader["parameters"]["datasets"])
    if name not in datasets:
        raise InputError(f"{name} is not a dataset; the datasets are {', '.join(datasets)}")
    return datasets[name]


def split_experiment(experiment: str, models: Collection[str] = MODELS) -> tuple[str, str]:
    """Split ``DATASET.MODEL``.

    Args:
        experiment: dataset and model, such as ``simulated.din``; a tuned model ends in ``_tuned``.
        models: model keys that are allowed.

    Raises:
        InputError: the model is missing or unknown.
    """
    dataset, _, model = experiment.partition(".")
    if model.removesuffix(TUNED_SUFFIX) not in models:
        raise InputError(
            f"{experiment!r}: expected DATASET.MODEL, such as {dataset}.din; the models are {', '.join(models)}"
        )
    return dataset, model
