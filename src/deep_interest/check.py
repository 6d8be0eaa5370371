"""`deep-interest check`: a dataset's raw files, read as its ingest pipeline reads them, and what is in them."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.io import CatalogProtocol
from kedro.utils import find_kedro_project
from pydantic import ValidationError

from deep_interest.errors import InputError
from deep_interest.grid import datasets_of
from deep_interest.logs.contracts import validate
from deep_interest.logs.inspection import inspect_log, report_lines, unknown_lines
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.ingest import create_pipeline
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.nodes import (
    build_vocabularies,
    samples_from_behaviors,
    samples_from_impressions,
)


def check_dataset(dataset: str, *, env: str | None = None, folder: Path | None = None) -> list[str]:
    """Read a dataset, check the canonical tables, and describe them.

    Args:
        dataset: its key.
        env: the configuration environment.
        folder: of the project; that of the working directory if left out.

    Returns:
        Lines for a terminal: counts, days, shares, history lengths, warnings.

    Raises:
        InputError: no such dataset, or its files cannot be used.
    """
    project = folder or find_kedro_project(Path.cwd())
    if project is None:
        raise InputError(
            f"{Path.cwd()}: no Kedro project here or above; run the command in the project's folder"
        )
    bootstrap_project(project)
    logging.getLogger("kedro.pipeline.node").disabled = True  # it would tell an error a second time
    logging.getLogger(
        samples_from_impressions.__module__
    ).disabled = True  # its warnings are among the check's own
    with KedroSession.create(project, env=env, save_on_close=False) as session:
        context = session.load_context()
        blocks = context.config_loader["parameters"]["datasets"]
        rows = datasets_of(blocks)
        if dataset not in rows:
            raise InputError(f"{dataset} is no dataset; the datasets are {', '.join(rows)}")
        settings = _settings(dataset, blocks[dataset])
        tables = _read(dataset, settings, context.catalog)
    validate(tables)
    summary = _make_samples(tables, settings)  # what stops a run stops the check
    return [
        f"{dataset}: {settings.title}",
        "",
        *unknown_lines(summary),
        "",
        *report_lines(inspect_log(tables, settings.protocol, settings.features)),
    ]


def _settings(dataset: str, block: dict[str, Any]) -> DatasetParameters:
    try:
        return DatasetParameters.model_validate(block)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise InputError(f"datasets.{dataset}: {'; '.join(faults)}") from error


def _make_samples(tables: CanonicalTables, settings: DatasetParameters) -> pd.DataFrame:
    """Make the samples with the dataset's own nodes, and return their summary."""
    ids = build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    known = tables.behaviors, tables.items, *ids, tables.left_out, settings
    if tables.impressions is None:
        return samples_from_behaviors(*known)[-1]
    return samples_from_impressions(*known, tables.users, tables.impressions)[-1]


def _read(dataset: str, settings: DatasetParameters, catalog: CatalogProtocol) -> CanonicalTables:
    """The canonical tables, by the dataset's own ingest node."""
    row = datasets_of({dataset: settings.model_dump()})[dataset]
    (node,) = create_pipeline(dataset, row).nodes
    raw = {name: catalog.load(name) for name in node.inputs if not name.startswith("params:")}
    parameters: dict[str, Any] = {name: settings for name in node.inputs if name.startswith("params:")}
    made = {name.removeprefix(f"{dataset}."): table for name, table in node.run(raw | parameters).items()}
    return CanonicalTables(**made)
