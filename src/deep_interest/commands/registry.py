"""`deep-interest registry`: list the versions of a retrained model, and choose by hand which one serves."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from deep_interest.commands.session import load_entries, read_configuration, require_dataset, split_experiment
from deep_interest.errors import InputError
from deep_interest.experiments import RETRAINABLE
from deep_interest.models.config import Precision
from deep_interest.serving.mlflow_alias import sync_to_mlflow
from deep_interest.serving.model_card import NEEDED, calibration_phrase, model_card
from deep_interest.serving.registry import Registry


def list_versions(name: str, *, env: str | None = None) -> Iterator[str]:
    """Describe every version of a model, or of all models of a dataset, one line per version.

    Args:
        name: ``DATASET.MODEL`` or ``DATASET``.
        env: configuration environment.

    Raises:
        InputError: unknown dataset or model.
    """
    empty = True
    for experiment, registry in _registries(name, env)[0].items():
        state = registry.state()
        for version in registry.names():
            empty = False
            role = {state.champion: "champion", state.previous: "previous"}.get(version, "-")
            yield f"{experiment}  {version}  {role:8}  {_description(registry, version)}"
    if empty:
        yield f"{name}: no versions yet"


def show_version(experiment: str, version: str | None, *, card: bool = False, env: str | None = None) -> str:
    """Return the manifest of a version as JSON, or its model card; that of the champion if no version is named.

    Raises:
        InputError: unknown dataset, model or version, no version serves yet, or the version is damaged.
    """
    registry, _ = _registry(experiment, env)
    name = version or registry.state().champion
    if name is None:
        raise InputError(
            f"{experiment}: no version serves yet; run `kedro run --pipelines=retrain.{experiment}`"
        )
    manifest = registry.load(name).manifest
    if card and not manifest.keys() >= NEEDED:
        raise InputError(
            f"{experiment}: version {name} has no model card, because its manifest lacks {', '.join(sorted(NEEDED - manifest.keys()))}"
        )
    return model_card(manifest) if card else json.dumps(manifest, indent=1)


def promote(experiment: str, version: str, *, env: str | None = None) -> str:
    """Make a version the champion, whatever the gate decided, and describe the result.

    Raises:
        InputError: unknown dataset, model or version, the version is damaged, or a retraining run is in progress.
    """
    registry, mlflow_uri = _registry(experiment, env)
    with registry.locked():
        registry.promote(version)
        _sync(registry, experiment, mlflow_uri)
    return f"{experiment}: {version} is the champion now"


def rollback(experiment: str, *, env: str | None = None) -> str:
    """Make the previous champion the champion again, and describe the result.

    Raises:
        InputError: unknown dataset or model, there is no previous version, it is damaged, or a retraining run is in
            progress.
    """
    registry, mlflow_uri = _registry(experiment, env)
    with registry.locked():
        replaced = registry.state().champion
        result = f"{experiment}: {registry.rollback()} is the champion again, in place of {replaced}"
        _sync(registry, experiment, mlflow_uri)
    return result


def _sync(registry: Registry, experiment: str, mlflow_uri: str | None) -> None:
    if mlflow_uri is not None:
        sync_to_mlflow(registry, experiment, mlflow_uri)


def _description(registry: Registry, version: str) -> str:
    if damage := registry.damage(version):
        return f"DAMAGED: {damage}"
    manifest = registry.load(version).manifest
    verdict, days = manifest["verdict"], manifest["days"]
    written = datetime.fromtimestamp((registry.folder / version / "manifest.json").stat().st_mtime)
    gauc = verdict["challenger"]["gauc"]
    return (
        f"{manifest['strategy']}, days {days['trained'][0]} to {days['trained'][-1]}, "
        f"GAUC {'–' if gauc is None else f'{gauc:.4f}'} on {days['held_out']}, "
        f"{'passed' if verdict['promoted'] else 'refused by'} the gate, {_precision(verdict)}"
        f"{calibration_phrase(manifest.get('calibration'))}, written {written:%Y-%m-%d %H:%M}"
    )


def _precision(verdict: dict[str, Any]) -> str:
    """Describe the precision of a version that is not float32."""
    found = verdict.get("precision")
    if not found:
        return ""
    loss = found["loss"]
    cost = "" if loss is None else f" (GAUC {-loss['difference']:+.5f})"
    return f"{Precision(tables=found['tables'], attention=found['attention'])}{cost}, "


def _registry(experiment: str, env: str | None) -> tuple[Registry, str | None]:
    split_experiment(experiment, RETRAINABLE)
    registries, mlflow_uri = _registries(experiment, env)
    return registries[experiment], mlflow_uri


def _registries(name: str, env: str | None) -> tuple[dict[str, Registry], str | None]:
    """Return the registries of a model, or of all models of a dataset, and MLflow's address if versions are synced."""
    dataset, _, model = name.partition(".")
    if model:
        split_experiment(name, RETRAINABLE)
    experiments = [f"{dataset}.{key}" for key in ([model] if model else RETRAINABLE)]
    configuration = read_configuration(env)
    require_dataset(configuration, dataset)
    mlflow_uri = configuration.loader["parameters"]["retraining"].get("mlflow_uri")
    loaded = load_entries(configuration, [f"{key}.registry" for key in experiments])
    return {name.removesuffix(".registry"): registry for name, registry in loaded.items()}, mlflow_uri
