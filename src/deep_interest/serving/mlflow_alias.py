"""The champion in an MLflow registry too, for those who look there: a version of the model ``<dataset>.<model>`` with the alias ``champion``."""

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
    """Check that MLflow is there, which a parameter asks for.

    Raises:
        InputError: it is not installed.
    """
    if find_spec("mlflow") is None:
        raise InputError(
            f"{parameter} is set, but MLflow is not installed; pip install 'deep-interest[mlflow]', or set it to null"
        )


def sync_to_mlflow(registry: Registry, row: str, uri: str) -> None:
    """Register the version that serves, unless it is there, and move the alias to it; whatever goes wrong is a warning.

    The registry of files decides what serves; what MLflow has missed it is told the next time.

    Args:
        registry: of the row.
        row: ``<dataset>.<model>``, the registered model's name.
        uri: MLflow's, as ``sqlite:///mlflow.db`` or ``http://…``.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    try:
        champion = registry.champion()
        if champion is not None:
            _move_alias(champion, row, uri)
    except Exception as error:  # a run's result stands, whether MLflow is there or not
        logger.warning("retraining.mlflow_uri: %s was not told (%s)", uri, error)


def _move_alias(champion: Version, row: str, uri: str) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415  # an extra

    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    if not client.search_registered_models(f"name = '{row}'"):
        client.create_registered_model(row)
    known = {
        one.tags.get(_VERSION_TAG): one.version for one in client.search_model_versions(f"name = '{row}'")
    }
    number = known.get(champion.id)
    if number is None:
        source = champion.folder.resolve().as_uri()
        number = client.create_model_version(row, source=source, tags=_tags(champion)).version
    client.set_registered_model_alias(row, _ALIAS, number)


def _tags(version: Version) -> dict[str, str]:
    manifest: dict[str, Any] = version.manifest
    figures, days = manifest["verdict"]["challenger"], manifest["days"]
    told = {
        _VERSION_TAG: version.id, "strategy": manifest["strategy"], "first_day": days["trained"][0],
        "last_day": days["trained"][-1], "held_out": days["held_out"], **{name: figures[name] for name in ("gauc", "logloss", "calibration")},
    }  # fmt: skip
    return {name: str(value) for name, value in told.items()}
