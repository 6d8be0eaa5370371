"""Mirror of the champion in an MLflow registry: a version of the model ``<dataset>.<model>`` with the alias ``champion``."""

import logging
import os
from importlib.util import find_spec
from typing import Any

from deep_interest.errors import InputError
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import Version

logger = logging.getLogger(__name__)

_ALIAS, _VERSION_TAG = "champion", "version"


def require_mlflow(parameter: str = "retraining.mlflow_uri") -> None:
    """Check that MLflow is installed.

    Args:
        parameter: parameter that needs MLflow, for the message.

    Raises:
        InputError: MLflow is not installed.
    """
    if find_spec("mlflow") is None:
        raise InputError(
            f"{parameter} is set, but MLflow is not installed; pip install 'deep-interest[mlflow]', or set the parameter to null"
        )


def sync_to_mlflow(registry: Registry, name: str, uri: str) -> None:
    """Register the champion in MLflow, if it is not registered yet, and move the alias to it.

    The file registry remains the reference. A failure is logged as a warning, and the next call catches up.

    Args:
        registry: registry of the model.
        name: name of the registered model, ``<dataset>.<model>``.
        uri: URI of the MLflow server or database, such as ``http://localhost:5000`` or ``sqlite:///mlflow.db``.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    try:
        champion = registry.champion()
        if champion is not None:
            _move_alias(champion, name, uri)
    except Exception as error:  # the result of the run does not depend on MLflow
        logger.warning("MLflow at %s could not be updated (%s); the next run tries again", uri, error)


def _move_alias(champion: Version, name: str, uri: str) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415  # optional dependency

    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    registered = {
        version.tags.get(_VERSION_TAG): version.version
        for version in client.search_model_versions(f"name = '{name}'")
    }
    mlflow_version = registered.get(champion.id)
    if mlflow_version is None:
        source = champion.folder.resolve().as_uri()
        mlflow_version = client.create_model_version(name, source=source, tags=_tags(champion)).version
    client.set_registered_model_alias(name, _ALIAS, mlflow_version)


def _tags(version: Version) -> dict[str, str]:
    manifest: dict[str, Any] = version.manifest
    metrics, days = manifest["verdict"]["challenger"], manifest["days"]
    tags = {
        _VERSION_TAG: version.id, "strategy": manifest["strategy"], "first_day": days["trained"][0],
        "last_day": days["trained"][-1], "held_out": days["held_out"], **{name: metrics[name] for name in ("gauc", "logloss", "calibration")},
    }  # fmt: skip
    return {name: str(value) for name, value in tags.items()}
