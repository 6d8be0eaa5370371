"""Open the Kedro project from any of its folders: its configuration, or a session with the whole catalog."""

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kedro.framework.startup import bootstrap_project
from kedro.io import AbstractDataset, CatalogConfigResolver
from kedro.utils import find_kedro_project

from deep_interest.errors import InputError, did_you_mean
from deep_interest.experiments import MODELS, DatasetSpec, datasets_of, without_variant
from deep_interest.messages.configuration import Configuration, open_configuration

if TYPE_CHECKING:
    from kedro.framework.context import KedroContext


def find_project(folder: Path | None = None) -> Path:
    """Return the root of the project that contains a folder, the working directory if left out.

    Raises:
        InputError: the folder is not in a Kedro project.
    """
    start = folder or Path.cwd()
    project = find_kedro_project(start)
    if project is None:
        raise InputError(
            f"{start} is not in a Kedro project; change to the project's folder or one below it and run the command again"
        )
    return project


def read_configuration(env: str | None = None, folder: Path | None = None) -> Configuration:
    """Read the project's configuration without a Kedro session: enough for a command that needs a path, and fast.

    Args:
        env: configuration environment; ``local`` if left out.
        folder: a folder of the project; the working directory if left out.

    Raises:
        InputError: as `open_project`.
    """
    project = find_project(folder)
    bootstrap_project(project)
    configuration = open_configuration(project, env=env)
    configuration.loader["parameters"] = (
        configuration.parameters()
    )  # so that Kedro does not read the files again
    return configuration


def load_entries(configuration: Configuration, names: Iterable[str]) -> dict[str, Any]:
    """Load entries of the catalog, as a session's catalog would; the catalog's files are read once.

    Args:
        configuration: the project's configuration.
        names: names of the entries.
    """
    catalog = configuration.catalog()
    resolver = CatalogConfigResolver(catalog, configuration.credentials(), default_runtime_patterns={})
    loaded = {}
    for name in names:
        entry = dict(resolver.resolve_pattern(name))
        path = str(entry.get("filepath", ""))
        if path and "://" not in path:
            entry["filepath"] = str(configuration.conf.parent / path)
        loaded[name] = AbstractDataset.from_config(name, entry).load()
    return loaded


@contextmanager
def open_project(env: str | None = None, folder: Path | None = None) -> Iterator["KedroContext"]:
    """Load the project that contains a folder; relative paths of its configuration refer to the project's root.

    Args:
        env: configuration environment; ``local`` if left out.
        folder: a folder of the project; the working directory if left out.

    Yields:
        The context: parameters and catalog.

    Raises:
        InputError: the folder is not in a Kedro project, or the environment does not exist.
    """
    from kedro.framework.session import KedroSession  # noqa: PLC0415  # imports every plugin

    project = find_project(folder)
    bootstrap_project(project)
    open_configuration(project, env=env)
    logging.getLogger("kedro.pipeline.node").disabled = True  # it logs errors that the command reports itself
    session: Any = KedroSession.create(project, env=env, save_on_close=False)
    with session:
        yield session.load_context()


def require_dataset(context: "KedroContext | Configuration", name: str) -> DatasetSpec:
    """Look up a dataset of the configuration.

    Args:
        context: a session's context, or the configuration.
        name: key of the dataset.

    Raises:
        InputError: there is no dataset of that name.
    """
    loader: Any = context.loader if isinstance(context, Configuration) else context.config_loader
    datasets = datasets_of(loader["parameters"]["datasets"])
    if name not in datasets:
        raise InputError(
            f"{name} is not a dataset; the datasets are {', '.join(datasets)}{did_you_mean(name, datasets)}"
        )
    return datasets[name]


def split_experiment(experiment: str, models: Collection[str] = MODELS) -> tuple[str, str]:
    """Split ``DATASET.MODEL``.

    Args:
        experiment: dataset and model, such as ``simulated.din``; a tuned model ends in ``_tuned``, a model of a leaderboard in ``_leaderboard``.
        models: model keys that are allowed.

    Raises:
        InputError: the model is missing or unknown.
    """
    dataset, _, model = experiment.partition(".")
    if without_variant(model) not in models:
        raise InputError(
            f"{experiment!r}: expected DATASET.MODEL, such as {dataset}.din; the models are {', '.join(models)}"
            f"{did_you_mean(model, models)}"
        )
    return dataset, model
