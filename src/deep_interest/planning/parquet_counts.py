"""Counts of canonical tables on disk."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.database import connect
from deep_interest.sources.sql import exact_path, quote_identifier
from deep_interest.sources.tables.counts import TableCounts

_EXACT = 10_000_000  # rows up to which distinct values are counted exactly; HyperLogLog beyond


def count_parquet(folder: Path, features: FeatureColumns) -> TableCounts:
    """Count the canonical tables of a dataset.

    Args:
        folder: folder with ``behaviors.parquet``, ``items.parquet`` and, with impressions, ``users.parquet`` and
            ``impressions.parquet``.
        features: feature columns.
    """
    with connect() as connection:
        tables = {
            name: folder / f"{name}.parquet"
            for name in ("behaviors", "items", "users", "impressions")
            if (folder / f"{name}.parquet").exists()
        }
        rows = {name: _rows(path) for name, path in tables.items()}
        groups = {
            "items": features.item,
            "behaviors": features.own_columns,
            "users": features.profile,
            "impressions": features.context,
        }
        values = {
            column: _distinct(connection, [path], column)
            for name, path in tables.items()
            for column in groups[name]
            if column in pq.read_schema(_files(path)[0]).names
        }
        events = [tables[name] for name in ("behaviors", "impressions") if name in tables]
        return TableCounts(
            users=_distinct(connection, events, "user"), items=rows["items"], behaviors=rows["behaviors"],
            impressions=rows.get("impressions", 0), values=values, raw_bytes=0,
        )  # fmt: skip


def _files(path: Path) -> list[Path]:
    """Return the files of a table, which may be a folder of partitions."""
    return sorted(path.rglob("*.parquet")) if path.is_dir() else [path]


def _rows(path: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in _files(path))


def _distinct(connection: duckdb.DuckDBPyConnection, tables: Sequence[Path], column: str) -> int:
    name = quote_identifier(column)
    exact = sum(map(_rows, tables)) <= _EXACT
    function = f"count(DISTINCT {name})" if exact else f"approx_count_distinct({name})"
    files = [exact_path(file) for table in tables for file in _files(table)]
    sql = f"SELECT {function} FROM read_parquet($files, hive_partitioning=false)"
    found = connection.execute(sql, {"files": files}).fetchone()
    assert found is not None
    return int(found[0])
