"""Read the raw files of a source and convert them to canonical tables."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from deep_interest.io.atomic import new_workspace
from deep_interest.logs.canonical import canonical
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters, IngestParameters
from deep_interest.sources.amazon import read_amazon
from deep_interest.sources.movielens import read_movielens
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.large import LargeTables, Workspace, read_large_tables
from deep_interest.sources.tables.reader import read_tables

IN_MEMORY = IngestParameters()
logger = logging.getLogger(__name__)

Events: TypeAlias = pd.DataFrame | Path
"""Behaviours or impressions; with ``ingest.memory_limit`` a folder of Parquet files."""
Tables = tuple[Events, pd.DataFrame, dict[str, Any]]
TablesWithImpressions = tuple[Events, pd.DataFrame, dict[str, Any], pd.DataFrame, Events]


def ingest_amazon(reviews: Path, metadata: Path | None, dataset: DatasetParameters) -> Tables:
    """Return behaviours, items and counts of skipped rows of an Amazon category."""
    return _canonical_tables(read_amazon(reviews, metadata, on_bad_line=dataset.reading.on_bad_line), dataset)


def ingest_movielens(archive: Path, dataset: DatasetParameters) -> Tables:
    """Return behaviours, items and counts of skipped rows of a MovieLens archive."""
    return _canonical_tables(read_movielens(archive, category=dataset.reading.category), dataset)


@node_factory
def make_ingest_tables(dataset: str) -> Callable[..., TablesWithImpressions]:
    """Return the node function that reads declared tables with impressions from the dataset's folder."""

    def ingest_tables(
        raw_log: Path, settings: DatasetParameters, ingest: IngestParameters = IN_MEMORY
    ) -> TablesWithImpressions:
        """Return behaviours, items, counts of skipped rows, users and impressions."""
        if ingest.memory_limit is not None:
            large = _read_large(dataset, raw_log, settings, ingest)
            assert large.users is not None
            assert large.impressions is not None
            return large.behaviors, large.items, large.left_out, large.users, large.impressions
        tables = _read_declared(dataset, raw_log, settings)
        users = tables.users if tables.users is not None else tables.shown[["user"]].drop_duplicates()
        return tables.behaviors, tables.items, tables.left_out, users, tables.shown

    return ingest_tables


@node_factory
def make_ingest_behaviors(dataset: str) -> Callable[..., Tables]:
    """Return the node function that reads declared tables without impressions from the dataset's folder."""

    def ingest_behaviors(
        raw_log: Path, settings: DatasetParameters, ingest: IngestParameters = IN_MEMORY
    ) -> Tables:
        """Return behaviours, items and counts of skipped rows."""
        if ingest.memory_limit is not None:
            large = _read_large(dataset, raw_log, settings, ingest)
            return large.behaviors, large.items, large.left_out
        tables = _read_declared(dataset, raw_log, settings)
        return tables.behaviors, tables.items, tables.left_out

    return ingest_behaviors


def _read_large(
    dataset: str, raw_log: Path, settings: DatasetParameters, ingest: IngestParameters
) -> LargeTables:
    reading = settings.reading
    folder, source = _source_of(dataset, raw_log, settings)
    parent = Path(ingest.workspace) / dataset
    parent.mkdir(parents=True, exist_ok=True)
    workspace = new_workspace(parent, "ingest")
    try:
        tables = read_large_tables(
            folder, source, settings.features, Workspace(workspace, ingest.memory_limit, ingest.rows_per_partition),
            on_bad_line=reading.on_bad_line, max_users=reading.max_users, seed=reading.tie_seed,
            repeated_impressions=reading.repeated_impressions == "keep",
        )  # fmt: skip
    except BaseException:
        shutil.rmtree(workspace, ignore_errors=True)
        raise
    _warn(tables.notes)
    return tables


def _read_declared(dataset: str, raw_log: Path, settings: DatasetParameters) -> CanonicalTables:
    reading = settings.reading
    folder, source = _source_of(dataset, raw_log, settings)
    tables = read_tables(folder, source, settings.features, on_bad_line=reading.on_bad_line)
    tables = canonical(
        tables, seed=reading.tie_seed, max_users=reading.max_users,
        repeated_impressions=reading.repeated_impressions == "keep",
    )  # fmt: skip
    _warn(tables.notes)
    return tables


def _source_of(dataset: str, raw_log: Path, settings: DatasetParameters) -> tuple[Path, Source]:
    """Return the folder and the declaration of the dataset's tables."""
    source = settings.source
    assert source is not None  # these nodes belong to datasets with declared tables
    return raw_log / (dataset if source.folder is None else source.folder), source


def _warn(notes: dict[str, int]) -> None:
    for note, rows in notes.items():
        logger.warning("%s: %s", note, f"{rows:,}")


def _canonical_tables(tables: CanonicalTables, dataset: DatasetParameters) -> Tables:
    tables = canonical(tables, seed=dataset.reading.tie_seed, max_users=dataset.reading.max_users)
    return tables.behaviors, tables.items, tables.left_out
