"""The project's pipelines by name: they are built before Kedro loads parameters, so datasets are read from the files here."""

from collections.abc import Mapping
from typing import Any

from kedro.pipeline import Pipeline

from deep_interest.configured import dataset_blocks
from deep_interest.grid import ABLATIONS, MODELS, RETRAINED, datasets_of, table_of
from deep_interest.pipelines import backtest, ingest, report, retrain, samples, score, simulate, train

_session_blocks: dict[str, Any] | None = None


def use_blocks(blocks: Mapping[str, Any]) -> None:
    """Take the dataset blocks of a session, which knows its environment and ``--params``, in place of the files'."""
    global _session_blocks  # noqa: PLW0603  # Kedro calls register_pipelines without arguments
    _session_blocks = dict(blocks)


def register_pipelines() -> dict[str, Pipeline]:
    """Every pipeline that ``kedro run --pipelines=NAME`` knows.

    Returns:
        ``<dataset>`` (raw files to table), ``<dataset>.<model>`` (raw files to one row), ``ingest.<dataset>``,
        ``samples.<dataset>`` (all up to the samples), ``report.<dataset>`` (the table from trained rows),
        ``din_table4.<dataset>``, ``din_table5.<dataset>`` and ``dien_table4.<dataset>`` (the papers' ablations, raw files
        to table), ``retrain.<dataset>.<model>`` (new days to a version that serves, where there are impressions), ``score.<dataset>.<model>`` (users and
        candidates to its scores), ``simulate``, ``simulate_days``, ``backtest``; ``__default__`` is ``simulated``.
    """
    pipelines: dict[str, Pipeline] = {
        "simulate": simulate.create_pipeline(), "simulate_days": simulate.create_days_pipeline(),
    }  # fmt: skip
    for dataset, row in datasets_of(_session_blocks or dataset_blocks()).items():
        raw = pipelines["simulate"] if dataset == "simulated" else Pipeline([])
        ingested = raw + ingest.create_pipeline(dataset, row)
        sampled = ingested + samples.create_pipeline(dataset, row)
        cells = {model: train.create_pipeline(dataset, model) for model in MODELS}
        rows = table_of(row)
        table = report.create_pipeline(dataset, rows)
        pipelines[dataset] = sum((cells[model] for model in rows.models), sampled) + table
        pipelines[f"ingest.{dataset}"] = ingested
        pipelines[f"samples.{dataset}"] = sampled
        pipelines[f"report.{dataset}"] = table
        for name, ablation in ABLATIONS.items():
            pipelines[f"{name}.{dataset}"] = sum(
                (cells[model] for model in ablation.models), sampled
            ) + report.create_pipeline(dataset, ablation, name=name)
        if row.impressions:
            for model in RETRAINED:
                pipelines[f"retrain.{dataset}.{model}"] = retrain.create_pipeline(dataset, model)
                pipelines[f"score.{dataset}.{model}"] = score.create_pipeline(dataset, model)
        for model, cell in cells.items():
            pipelines[f"{dataset}.{model}"] = sampled + cell + report.create_row_pipeline(dataset, model)
    pipelines["backtest"] = pipelines["simulate_days"] + backtest.create_pipeline()
    pipelines["__default__"] = pipelines["simulated"]
    return pipelines
