"""`deep-interest registry`: look at the versions of a row, and decide by hand which one serves."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project

from deep_interest.errors import InputError
from deep_interest.experiments import RETRAINABLE, datasets_of
from deep_interest.serving.mlflow_alias import sync_to_mlflow
from deep_interest.serving.registry import Registry


def list_versions(row: str, *, env: str | None = None) -> Iterator[str]:
    """Lines that name every version of a row, or of all rows of a dataset.

    Args:
        row: ``DATASET.MODEL`` or ``DATASET``.
        env: the configuration environment.

    Raises:
        InputError: no such row.
    """
    found = False
    for name, registry in _registries(row, env)[0].items():
        state = registry.state()
        for version in registry.names():
            found = True
            role = {state.champion: "champion", state.previous: "previous"}.get(version, "")
            yield f"{name}  {version}  {role or '-':8}  {_facts(registry, version)}"
    if not found:
        yield f"{row}: no versions yet"


def show_version(row: str, version: str | None, *, env: str | None = None) -> str:
    """Everything that a version's manifest says, as JSON; the champion's if none is named.

    Raises:
        InputError: no such row or version, or it is damaged.
    """
    registry, _ = _registry(row, env)
    name = version or registry.state().champion
    if name is None:
        raise InputError(f"{row}: no version serves yet")
    return json.dumps(registry.load(name).manifest, indent=1)


def promote(row: str, version: str, *, env: str | None = None) -> str:
    """Let a version serve, whatever the gate said of it; what has been done, in words.

    Raises:
        InputError: no such row or version, it is damaged, or a run is at work.
    """
    registry, mlflow_uri = _registry(row, env)
    with registry.locked():
        registry.promote(version)
        _tell(registry, row, mlflow_uri)
    return f"{row}: {version} serves now"


def rollback(row: str, *, env: str | None = None) -> str:
    """Let the version before the champion serve again; what has been done, in words.

    Raises:
        InputError: no such row, there is no version before, it is damaged, or a run is at work.
    """
    registry, mlflow_uri = _registry(row, env)
    with registry.locked():
        left = registry.state().champion
        done = f"{row}: {registry.rollback()} serves again in place of {left}"
        _tell(registry, row, mlflow_uri)
    return done


def _tell(registry: Registry, row: str, mlflow_uri: str | None) -> None:
    if mlflow_uri is not None:
        sync_to_mlflow(registry, row, mlflow_uri)


def _facts(registry: Registry, version: str) -> str:
    if damage := registry.damage(version):
        return f"DAMAGED: {damage}"
    manifest = registry.load(version).manifest
    verdict, days = manifest["verdict"], manifest["days"]
    written = datetime.fromtimestamp((registry.folder / version / "manifest.json").stat().st_mtime)
    gauc = verdict["challenger"]["gauc"]
    return (
        f"{manifest['strategy']}, days {days['trained'][0]} to {days['trained'][-1]}, GAUC {'–' if gauc is None else f'{gauc:.4f}'} on "
        f"{days['held_out']}, {'passed' if verdict['promoted'] else 'refused by'} the gate, written {written:%Y-%m-%d %H:%M}"
    )


def _registry(row: str, env: str | None) -> tuple[Registry, str | None]:
    dataset, _, model = row.partition(".")
    if not model:
        raise InputError(f"{row}: name the model too, as {dataset}.din")
    registries, mlflow_uri = _registries(row, env)
    return registries[row], mlflow_uri


def _registries(row: str, env: str | None) -> tuple[dict[str, Registry], str | None]:
    """The registries of a row, or of all rows of a dataset; and MLflow's address, where it is told."""
    dataset, _, model = row.partition(".")
    project = find_kedro_project(Path.cwd())
    if project is None:
        raise InputError(
            f"{Path.cwd()}: no Kedro project here or above; run the command in the project's folder"
        )
    bootstrap_project(project)
    with KedroSession.create(project, env=env, save_on_close=False) as session:
        context = session.load_context()
        rows = datasets_of(context.config_loader["parameters"]["datasets"])
        if dataset not in rows:
            raise InputError(f"{dataset} is no dataset; the datasets are {', '.join(rows)}")
        if model and model not in RETRAINABLE:
            raise InputError(f"{model} is no row that is kept fresh; those are {', '.join(RETRAINABLE)}")
        names = [f"{dataset}.{key}" for key in ([model] if model else RETRAINABLE)]
        mlflow_uri = context.config_loader["parameters"]["retraining"].get("mlflow_uri")
        return {name: context.catalog.load(f"{name}.registry") for name in names}, mlflow_uri
