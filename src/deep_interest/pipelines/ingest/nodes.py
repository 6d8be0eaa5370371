"""Read the raw files of a source and convert them to canonical tables."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.logs.canonical import canonical
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.sources.amazon import read_amazon
from deep_interest.sources.movielens import read_movielens
from deep_interest.sources.tables.reader import read_tables

logger = logging.getLogger(__name__)

Tables = tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]
TablesWithImpressions = tuple[pd.DataFrame, pd.DataFrame, dict[str, Any], pd.DataFrame, pd.DataFrame]


def ingest_amazon(reviews: Path, metadata: Path | None, dataset: DatasetParameters) -> Tables:
    """Return behaviours, items and counts of skipped rows of an Amazon category."""
    return _canonical_tables(read_amazon(reviews, metadata, on_bad_line=dataset.reading.on_bad_line), dataset)


def ingest_movielens(archive: Path, dataset: DatasetParameters) -> Tables:
    """Return behaviours, items and counts of skipped rows of a MovieLens archive."""
    return _canonical_tables(read_movielens(archive, category=dataset.reading.category), dataset)


@node_factory
def make_ingest_tables(dataset: str) -> Callable[..., TablesWithImpressions]:
    """Return the node function that reads declared tables with impressions from the dataset's folder."""

    def ingest_tables(raw_log: Path, settings: DatasetParameters) -> TablesWithImpressions:
        """Return behaviours, items, counts of skipped rows, users and impressions."""
        tables = _read_declared(dataset, raw_log, settings)
        users = tables.users if tables.users is not None else tables.shown[["user"]].drop_duplicates()
        return tables.behaviors, tables.items, tables.left_out, users, tables.shown

    return ingest_tables


@node_factory
def make_ingest_behaviors(dataset: str) -> Callable[..., Tables]:
    """Return the node function that reads declared tables without impressions from the dataset's folder."""

    def ingest_behaviors(raw_log: Path, settings: DatasetParameters) -> Tables:
        """Return behaviours, items and counts of skipped rows."""
        tables = _read_declared(dataset, raw_log, settings)
        return tables.behaviors, tables.items, tables.left_out

    return ingest_behaviors


def _read_declared(dataset: str, raw_log: Path, settings: DatasetParameters) -> CanonicalTables:
    reading, source = settings.reading, settings.source
    assert source is not None  # this node belongs to datasets with declared tables
    folder = raw_log / (dataset if source.folder is None else source.folder)
    tables = read_tables(folder, source, settings.features, on_bad_line=reading.on_bad_line)
    tables = canonical(
        tables, seed=reading.tie_seed, max_users=reading.max_users,
        repeated_impressions=reading.repeated_impressions == "keep",
    )  # fmt: skip
    for note, rows in tables.notes.items():
        logger.warning("%s: %s", note, f"{rows:,}")
    return tables


def _canonical_tables(tables: CanonicalTables, dataset: DatasetParameters) -> Tables:
    tables = canonical(tables, seed=dataset.reading.tie_seed, max_users=dataset.reading.max_users)
    return tables.behaviors, tables.items, tables.left_out
