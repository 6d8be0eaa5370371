"""The project's pipelines by name."""

import os

from kedro.pipeline import Pipeline

from deep_interest.errors import InputError
from deep_interest.grid import ABLATIONS, ALL_ROWS, DATASETS, MODELS, SEARCHED, TUNED, DatasetRow, tuned_table
from deep_interest.pipelines import ingest, report, samples, simulate, train, tune

CHOICE = "DEEP_INTEREST_DATASETS"  # of datasets, separated by commas


def register_pipelines() -> dict[str, Pipeline]:
    """Every pipeline that ``kedro run --pipelines=NAME`` knows.

    Returns:
        ``<dataset>`` (raw files to table), ``<dataset>.<model>`` (raw files to one row), ``ingest.<dataset>``,
        ``samples.<dataset>`` (all up to the samples), ``report.<dataset>`` (the table from trained rows),
        ``din_table4.<dataset>``, ``din_table5.<dataset>`` and ``dien_table4.<dataset>`` (the papers' ablations, raw files
        to table), ``tune.<dataset>.<model>`` (raw files to the best values of a row's options), ``tuned.<dataset>.<model>`` (the
        row with these values against the row without), ``simulate``; ``__default__`` is ``simulated``. Where DEEP_INTEREST_DATASETS names datasets, only theirs, and the
        first is the default.
    """
    pipelines: dict[str, Pipeline] = {"simulate": simulate.create_pipeline()}
    for dataset, row in _chosen().items():
        raw = pipelines["simulate"] if dataset == "simulated" else Pipeline([])
        ingested = raw + ingest.create_pipeline(dataset, row)
        sampled = ingested + samples.create_pipeline(dataset, row)
        cells = {model: train.create_pipeline(dataset, model) for model in MODELS}
        table = report.create_pipeline(dataset, ALL_ROWS) + report.create_pictures_pipeline(dataset)
        pipelines[dataset] = sum((cells[model] for model in ALL_ROWS.models), sampled) + table
        pipelines[f"ingest.{dataset}"] = ingested
        pipelines[f"samples.{dataset}"] = sampled
        pipelines[f"report.{dataset}"] = table
        for name, ablation in ABLATIONS.items():
            pipelines[f"{name}.{dataset}"] = sum(
                (cells[model] for model in ablation.models), sampled
            ) + report.create_pipeline(dataset, ablation, name=name)
        for model, cell in cells.items():
            pipelines[f"{dataset}.{model}"] = Pipeline(
                [sampled, cell, report.create_row_pipeline(dataset, model)]
            )
        for model in SEARCHED:
            pipelines[f"tune.{dataset}.{model}"] = Pipeline([sampled, tune.create_pipeline(dataset, model)])
            twin = train.create_pipeline(dataset, model, tuned=True)
            table = report.create_pipeline(dataset, tuned_table(model), name=f"{model}{TUNED}")
            pipelines[f"tuned.{dataset}.{model}"] = Pipeline([sampled, cells[model], twin, table])
    pipelines["__default__"] = pipelines[next(iter(_chosen()))]
    return pipelines


def _chosen() -> dict[str, DatasetRow]:
    """The datasets whose pipelines are registered: all, or those that DEEP_INTEREST_DATASETS names, which saves time."""
    names = os.environ.get(CHOICE, "")
    if not names:
        return DATASETS
    chosen = [name.strip() for name in names.split(",")]
    if unknown := [name for name in chosen if name not in DATASETS]:
        raise InputError(
            f"{CHOICE}: {', '.join(unknown)} is not known; the datasets are {', '.join(DATASETS)}"
        )
    return {name: DATASETS[name] for name in chosen}
