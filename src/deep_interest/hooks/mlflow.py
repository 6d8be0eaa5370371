"""Trained rows and their figures in MLflow too, for those who compare runs there: an experiment a dataset, a run a row."""

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

logger = logging.getLogger(__name__)

_RESULTS = ("gauc", "gauc_std", "auc", "logloss", "rela_impr", "validation_gauc", "train_seconds")
_CURVES = ("train_loss", "validation_loss", "validation_gauc")


class MLflowHooks:
    """Hooks of the runs that train rows while ``training.mlflow_uri`` is set; other runs pass."""

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Refuse to start where MLflow is wanted and not installed."""
        from deep_interest.serving.mlflow_alias import require_mlflow  # noqa: PLC0415

        if _uri(pipeline, catalog):
            require_mlflow("training.mlflow_uri")

    @hook_impl
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Tell MLflow of every row that the run has trained; whatever goes wrong is a warning: the files have it all."""
        uri = _uri(pipeline, catalog)
        if not uri:
            return
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        try:
            for row in _rows(pipeline):
                _log_row(uri, row, pipeline, catalog)
        except Exception as error:  # a run's result stands, whether MLflow is there or not
            logger.warning("training.mlflow_uri: %s was not told (%s)", uri, error)


def _uri(pipeline: Pipeline, catalog: CatalogProtocol) -> str | None:
    trains = "params:training" in pipeline.inputs() and any(_rows(pipeline))
    return catalog.load("params:training").mlflow_uri if trains else None


def _rows(pipeline: Pipeline) -> list[str]:
    """The rows that a pipeline trains, as ``<dataset>.<model>``."""
    made = sorted(pipeline.all_outputs())
    return [name.removesuffix(".settings") for name in made if name.endswith(".settings")]


def _log_row(uri: str, row: str, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
    from mlflow import MlflowClient  # noqa: PLC0415  # an extra

    client, (dataset, _, model) = MlflowClient(tracking_uri=uri), row.partition(".")
    experiment = client.get_experiment_by_name(dataset)
    settings = catalog.load(f"{row}.settings")
    run = client.create_run(
        experiment.experiment_id if experiment else client.create_experiment(dataset), run_name=model
    ).info.run_id
    for name, value in _flat(settings):
        client.log_param(run, name, str(value)[:500])  # no longer ones, says MLflow
    for epoch, figures in catalog.load(f"{row}.learning_curves").groupby("epoch"):
        for name in _CURVES:
            client.log_metric(run, f"curve.{name}", float(figures[name].mean()), step=int(epoch))
    for table in sorted(name for name in pipeline.all_outputs() if name.endswith(".results")):
        results = catalog.load(table)
        for name, value in _figures(results[results["model"] == model]):
            client.log_metric(run, name, value)
    client.set_terminated(run)


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _figures(rows: pd.DataFrame) -> Iterator[tuple[str, float]]:
    """The figures of a row's line in a table, if it has one there."""
    for _, figures in rows.iterrows():
        yield from ((name, float(figures[name])) for name in _RESULTS if pd.notna(figures[name]))
