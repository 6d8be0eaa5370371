"""Log trained models and their metrics to MLflow as well: one MLflow experiment per dataset, one run per model."""

import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

_RESULTS = ("gauc", "gauc_std", "auc", "logloss", "rela_impr", "validation_gauc", "train_seconds")
_CURVES = ("train_loss", "validation_loss", "validation_gauc")


class MLflowHooks:
    """Log the models that a run trains if ``training.mlflow_uri`` is set."""

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Raise an error if MLflow is needed but not installed."""
        from deep_interest.serving.mlflow_alias import require_mlflow  # noqa: PLC0415

        if _uri(pipeline, catalog):
            require_mlflow("training.mlflow_uri")

    @hook_impl
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Log every model that the run has trained; any failure is a warning, because all results are in files too."""
        uri = _uri(pipeline, catalog)
        if not uri:
            return
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        try:
            for experiment in _experiments(pipeline):
                _log_experiment(uri, experiment, pipeline, catalog)
        except Exception as error:  # never lose a finished run because of MLflow
            logger.warning("training.mlflow_uri: %s could not be updated (%s)", uri, error)


def _uri(pipeline: Pipeline, catalog: CatalogProtocol) -> str | None:
    trains = "params:training" in pipeline.inputs() and any(_experiments(pipeline))
    return catalog.load("params:training").mlflow_uri if trains else None


def _experiments(pipeline: Pipeline) -> list[str]:
    """Return the experiments that a pipeline trains, as ``<dataset>.<model>``."""
    outputs = sorted(pipeline.all_outputs())
    return [name.removesuffix(".settings") for name in outputs if name.endswith(".settings")]


def _log_experiment(uri: str, experiment: str, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415  # an optional dependency

    client, (dataset, _, model) = MlflowClient(tracking_uri=uri), experiment.partition(".")
    parent = client.get_experiment_by_name(dataset)
    settings = catalog.load(f"{experiment}.settings")
    run = client.create_run(
        parent.experiment_id if parent else client.create_experiment(dataset), run_name=model
    ).info.run_id
    for name, value in _flat(settings):
        client.log_param(run, name, str(value)[:500])  # MLflow's limit
    for epoch, curve in catalog.load(f"{experiment}.learning_curves").groupby("epoch"):
        for name in _CURVES:
            client.log_metric(run, f"curve.{name}", float(curve[name].mean()), step=int(epoch))
    for table in sorted(name for name in pipeline.all_outputs() if name.endswith(".results")):
        results = catalog.load(table)
        for name, value in _metrics(results[results["model"] == model]):
            client.log_metric(run, name, value)
    client.set_terminated(run)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings under dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _metrics(rows: "pd.DataFrame") -> Iterator[tuple[str, float]]:
    """Yield the metrics of a model's row of the results table, if it has one."""
    import pandas as pd  # noqa: PLC0415

    for _, row in rows.iterrows():
        yield from ((name, float(row[name])) for name in _RESULTS if pd.notna(row[name]))
