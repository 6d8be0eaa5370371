"""`deep-interest check`: a dataset's raw files, read as its ingest pipeline reads them, and what is in them."""

import logging
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.io import CatalogProtocol
from kedro.utils import find_kedro_project
from pydantic import BaseModel, ValidationError

from deep_interest.errors import InputError
from deep_interest.evaluation.evidence import EvaluationParameters, evidence, shortage
from deep_interest.experiments import datasets_of
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

Block = TypeVar("Block", bound=BaseModel)


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
        parameters = context.config_loader["parameters"]
        blocks = parameters["datasets"]
        rows = datasets_of(blocks)
        if dataset not in rows:
            raise InputError(f"{dataset} is no dataset; the datasets are {', '.join(rows)}")
        settings = _settings(dataset, blocks[dataset])
        minimum = _validated("evaluation", EvaluationParameters, parameters["evaluation"])
        tables = _read(dataset, settings, context.catalog)
    validate(tables)
    samples, summary = _make_samples(tables, settings)  # whatever stops a run also stops the check
    return [
        f"{dataset}: {settings.title}",
        "",
        *unknown_lines(summary),
        "",
        *report_lines(inspect_log(tables, settings.protocol, settings.features)),
        *test_set_lines(samples[samples["split"] == "test"], minimum),
    ]


def test_set_lines(test: pd.DataFrame, minimum: EvaluationParameters) -> list[str]:
    """What GAUC rests on, and a warning where it is too little for intervals.

    Args:
        test: ``user``, ``label``, one row per test sample.
        minimum: what the test set needs before there are intervals.
    """
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    both, positives = evidence(users, labels)
    lines = [f"test set: {both:,} users with both classes, {positives:,} positive samples of theirs"]
    lacking = shortage(users, labels, minimum)
    if lacking:
        lines.append(f"warning: {lacking}, so the table will give no interval, star or verdict")
    return ["", *lines]


def _settings(dataset: str, block: dict[str, Any]) -> DatasetParameters:
    return _validated(f"datasets.{dataset}", DatasetParameters, block)


def _validated(where: str, kind: type[Block], block: dict[str, Any]) -> Block:
    try:
        return kind.model_validate(block)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise InputError(f"{where}: {'; '.join(faults)}") from error


def _make_samples(tables: CanonicalTables, settings: DatasetParameters) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make the samples with the dataset's own nodes; the samples and their summary."""
    ids = build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    known = tables.behaviors, tables.items, *ids, tables.left_out, settings
    if tables.impressions is None:
        made = samples_from_behaviors(*known)
    else:
        made = samples_from_impressions(*known, tables.users, tables.impressions)
    return made[2], made[3]


def _read(dataset: str, settings: DatasetParameters, catalog: CatalogProtocol) -> CanonicalTables:
    """The canonical tables, by the dataset's own ingest node."""
    row = datasets_of({dataset: settings.model_dump()})[dataset]
    (node,) = create_pipeline(dataset, row).nodes
    raw = {name: catalog.load(name) for name in node.inputs if not name.startswith("params:")}
    parameters: dict[str, Any] = {name: settings for name in node.inputs if name.startswith("params:")}
    made = {name.removeprefix(f"{dataset}."): table for name, table in node.run(raw | parameters).items()}
    return CanonicalTables(**made)
