"""The project's pipelines by name: they are known before Kedro loads parameters, so datasets are read from the files here."""

import atexit
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from kedro.pipeline import Pipeline

from deep_interest.config import dataset_blocks
from deep_interest.errors import InputError
from deep_interest.experiments import (
    ABLATIONS,
    MODELS,
    RETRAINABLE,
    TUNABLE,
    TUNED_SUFFIX,
    DatasetSpec,
    datasets_of,
    table_for,
    table_of_tuned,
)
from deep_interest.pipelines import backtest, ingest, report, retrain, samples, score, simulate, train, tune

CHOICE = "DEEP_INTEREST_DATASETS"  # of datasets, separated by commas

_session_blocks: dict[str, Any] | None = None


def use_blocks(blocks: Mapping[str, Any]) -> None:
    """Take the dataset blocks of a session, which knows its environment and ``--params``, in place of the files'."""
    global _session_blocks  # noqa: PLW0603  # Kedro calls register_pipelines without arguments
    _session_blocks = dict(blocks)


class LazyPipelines(dict):
    """Pipelines by name, each built when it is asked for: a run needs one of more than a thousand."""

    def __getitem__(self, name: str) -> Pipeline:
        pipeline = super().__getitem__(name)
        if not isinstance(pipeline, Pipeline):
            pipeline = self[name] = pipeline()
        return pipeline

    def __iter__(self) -> Iterator[str]:  # of one's own, so that dict(…) asks for each
        return iter(list(super().keys()))

    def values(self) -> list[Pipeline]:
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Pipeline]]:
        return [(name, self[name]) for name in self]


def register_pipelines() -> dict[str, Pipeline]:
    """Every pipeline that ``kedro run --pipelines=NAME`` knows.

    Returns:
        ``<dataset>`` (raw files to table), ``<dataset>.<model>`` (raw files to one row), ``ingest.<dataset>``,
        ``samples.<dataset>`` (all up to the samples), ``report.<dataset>`` (the table from trained rows),
        ``din_table4.<dataset>``, ``din_table5.<dataset>`` and ``dien_table4.<dataset>`` (the papers' ablations, raw files
        to table), ``tune.<dataset>.<model>`` (raw files to the best values of a row's options),
        ``tuned.<dataset>.<model>`` (the row with these values against the row without),
        ``retrain.<dataset>.<model>`` (new days to a version that serves, where there are impressions),
        ``score.<dataset>.<model>`` (users and candidates to its scores), ``simulate``, ``simulate_days``, ``backtest``; ``__default__`` is
        ``simulated``, ``retrain`` and ``score`` are those of DIN on the first dataset that has impressions, ``simulated`` again. Where
        DEEP_INTEREST_DATASETS names datasets, only theirs, and the first is the default.
    """
    pipelines = LazyPipelines(
        simulate=simulate.create_pipeline,
        simulate_days=simulate.create_days_pipeline,
        backtest=lambda: Pipeline([simulate.create_days_pipeline(), backtest.create_pipeline()]),
    )
    chosen = _chosen()
    for dataset, row in chosen.items():
        pipelines.update(_of_dataset(dataset, row))
    default = next(iter(chosen))
    pipelines["__default__"] = lambda: pipelines[default]
    with_impressions = next((dataset for dataset, row in chosen.items() if row.impressions), None)
    for kind in ("retrain", "score") if with_impressions else ():
        pipelines[kind] = lambda kind=kind: pipelines[f"{kind}.{with_impressions}.din"]
    atexit.register(pipelines.clear)  # else what they hold of DuckDB is reported as a leak at the end
    return pipelines


def _of_dataset(dataset: str, row: DatasetSpec) -> dict[str, Callable[[], Pipeline]]:
    """What makes each of a dataset's pipelines."""

    @cache
    def ingested() -> Pipeline:
        raw = simulate.create_pipeline() if dataset == "simulated" else Pipeline([])
        return raw + ingest.create_pipeline(dataset, row)

    @cache
    def sampled() -> Pipeline:
        return ingested() + samples.create_pipeline(dataset, row)

    @cache
    def cell(model: str) -> Pipeline:
        return train.create_pipeline(dataset, model)

    @cache
    def table() -> Pipeline:
        rows = table_for(row)
        return report.create_pipeline(dataset, rows) + report.create_plots_pipeline(dataset, rows)

    def ablation(name: str) -> Pipeline:
        rows = ABLATIONS[name]
        return Pipeline(
            [sampled(), *map(cell, rows.models), report.create_pipeline(dataset, rows, name=name)]
        )

    def tuned(model: str) -> Pipeline:
        twin = train.create_pipeline(dataset, model, tuned=True)
        both = report.create_pipeline(dataset, table_of_tuned(model), name=f"{model}{TUNED_SUFFIX}")
        return Pipeline([sampled(), cell(model), twin, both])

    makers: dict[str, Callable[[], Pipeline]] = {
        dataset: lambda: Pipeline([sampled(), *map(cell, table_for(row).models), table()]),
        f"ingest.{dataset}": ingested,
        f"samples.{dataset}": sampled,
        f"report.{dataset}": table,
    }
    for name in ABLATIONS:
        makers[f"{name}.{dataset}"] = lambda name=name: ablation(name)
    for model in MODELS:
        makers[f"{dataset}.{model}"] = lambda model=model: Pipeline(
            [sampled(), cell(model), report.create_model_pipeline(dataset, model)]
        )
    for model in RETRAINABLE if row.impressions else ():
        makers[f"retrain.{dataset}.{model}"] = lambda model=model: retrain.create_pipeline(dataset, model)
        makers[f"score.{dataset}.{model}"] = lambda model=model: score.create_pipeline(dataset, model)
    for model in TUNABLE:
        makers[f"tune.{dataset}.{model}"] = lambda model=model: Pipeline(
            [sampled(), tune.create_pipeline(dataset, model)]
        )
        makers[f"tuned.{dataset}.{model}"] = lambda model=model: tuned(model)
    return makers


def _chosen() -> dict[str, DatasetSpec]:
    """The datasets whose pipelines are registered: all, or those that DEEP_INTEREST_DATASETS names."""
    known = datasets_of(_session_blocks or dataset_blocks())
    names = os.environ.get(CHOICE, "")
    if not names:
        return known
    chosen = [name.strip() for name in names.split(",")]
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"{CHOICE}: {', '.join(unknown)} is unknown; the datasets are {', '.join(known)}")
    return {name: known[name] for name in chosen}
