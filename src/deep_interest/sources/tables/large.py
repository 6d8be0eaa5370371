"""Declared tables that do not fit into memory: canonical behaviours and impressions as folders of Parquet files.

The tables are in a database on disk, within a memory limit. Events are written in partitions by user, and each partition is freed of
duplicates, as `logs.canonical` does for tables in memory. The rows of a partition are in no particular order.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.database import connect
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import OnBadLine, TableReader
from deep_interest.sources.tables.scan import fetch_aggregates

_ROW = "row of the source"
_ROWS_AT_A_TIME = 10_000_000  # of a table while it is partitioned


@dataclass(frozen=True)
class LargeTables:
    """Canonical tables; behaviours and impressions are folders of Parquet files.

    Attributes:
        behaviors, impressions: folders; impressions None if the source has none.
        items, users: tables in memory; users None if the source has none.
        left_out, notes: as in `logs.tables.CanonicalTables`.
    """

    behaviors: Path
    items: pd.DataFrame
    users: pd.DataFrame | None
    impressions: Path | None
    left_out: dict[str, int]
    notes: dict[str, int]


@dataclass(frozen=True)
class Workspace:
    """Where and within which limits large tables are read.

    Attributes:
        folder: existing folder for the database and for the result.
        memory_limit: memory of the database, such as ``4GB``.
        rows_per_partition: approximate number of rows of a partition.
    """

    folder: Path
    memory_limit: str | None
    rows_per_partition: int


def read_large_tables(
    folder: Path, source: Source, features: FeatureColumns, workspace: Workspace, *, on_bad_line: OnBadLine = "error",
    max_users: int | None = None, seed: int = 0, repeated_impressions: bool = False,
) -> LargeTables:  # fmt: skip
    """Read the tables that ``source`` declares, as `reader.read_tables` and `logs.canonical.canonical` do in memory.

    Args:
        folder, source, features, on_bad_line: see `reader.read_tables`.
        workspace: where and within which limits they are read.
        max_users, seed, repeated_impressions: see `logs.canonical.canonical`.

    Raises:
        InputError: as the functions above.
    """
    with (
        tempfile.TemporaryDirectory(dir=workspace.folder) as copies,
        connect(workspace.folder, workspace.memory_limit) as connection,
    ):
        reader = TableReader(
            connection, folder, Path(copies), source, features, on_bad_line, workspace.folder
        )
        notes = reader.create()
        left_out = dict(reader.checks.skipped_rows)
        items = reader.fetch("items")
        assert items is not None
        if max_users is not None:
            left_out |= _keep_users(connection, max_users, seed)
        users = reader.fetch("users")
        has_impressions = bool(reader.raw_tables["impressions"])
        if users is None and has_impressions:
            users = (
                connection.sql("SELECT DISTINCT user FROM impressions ORDER BY user")
                .to_arrow_table()
                .to_pandas()
            )
        behaviors = _write_events(connection, "behaviors", workspace, left_out)
        impressions = None
        if has_impressions:
            impressions = _write_events(
                connection, "impressions", workspace, left_out, repeated=repeated_impressions
            )
    return LargeTables(behaviors, items, users, impressions, left_out, notes)


def _keep_users(connection: duckdb.DuckDBPyConnection, max_users: int, seed: int) -> dict[str, int]:
    """Keep the events of a sample of the users, and return the number of dropped ones by reason."""
    of_log = "impressions" if "segment" in _columns(connection, "behaviors") else "behaviors"
    query = f"SELECT DISTINCT user FROM {of_log} ORDER BY user"
    users = connection.sql(query).to_arrow_table()["user"].to_pandas().to_numpy()
    if len(users) <= max_users:
        return {}
    chosen = np.random.default_rng(seed).choice(users, max_users, replace=False)
    connection.register("chosen", pd.DataFrame({"user": chosen}))
    left_out = {}
    for table in ("behaviors", "impressions"):
        if not _columns(connection, table):
            continue
        before = _count(connection, table)
        connection.execute(f"DELETE FROM {table} WHERE user NOT IN (SELECT user FROM chosen)")
        left_out[f"{table} of users beyond max_users ({max_users})"] = before - _count(connection, table)
    return left_out


def _write_events(
    connection: duckdb.DuckDBPyConnection, table: str, workspace: Workspace, left_out: dict[str, int], *, repeated: bool = False
) -> Path:  # fmt: skip
    """Write a table in partitions by user without duplicates, of which the first one in the source counts."""
    rows, columns = _count(connection, table), _columns(connection, table)
    if not rows:
        reasons = "; ".join(f"{reason}: {count:,}" for reason, count in left_out.items())
        why = f"check the rows that were dropped ({reasons})" if reasons else "the source file has none"
        raise InputError(f"{table}: no rows remain; {why}")
    partitions = -(-rows // workspace.rows_per_partition)
    unsorted = Path(tempfile.mkdtemp(dir=workspace.folder))
    _write_partitions(connection, table, partitions, unsorted)
    connection.execute(f"DROP TABLE {table}")
    result = Path(tempfile.mkdtemp(dir=workspace.folder))
    written = 0
    for number in range(partitions):
        files = unsorted / f"partition={number}"
        if not files.exists():
            continue
        key = [name for name in ("user", "item", "time", "label", "request") if name in columns]
        keep_all = ("segment" in columns and table == "behaviors") or repeated or "split" in columns
        first = (
            f"QUALIFY row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY {quote_identifier(_ROW)}) = 1"
        )
        (count,) = fetch_aggregates(
            connection,
            f"COPY (SELECT * EXCLUDE ({quote_identifier(_ROW)}) FROM read_parquet({quote_literal(str(files / '*.parquet'))}, "
            f"hive_partitioning = false) {'' if keep_all else first}) "
            f"TO {quote_literal(str(result / f'part-{number:05}.parquet'))} (FORMAT parquet)",
        )
        written += count
        shutil.rmtree(files)
    shutil.rmtree(unsorted)
    if written < rows:
        what = "user, item, time and label" if "label" in columns else "user, item and time"
        reason = f"duplicate {table} (same {what})"
        left_out[reason] = left_out.get(reason, 0) + rows - written
    return result


def _write_partitions(
    connection: duckdb.DuckDBPyConnection, table: str, partitions: int, folder: Path
) -> None:
    """Write a table in partitions by user, some rows at a time: DuckDB copies what it partitions to disk, uncompressed."""
    (last,) = fetch_aggregates(connection, f"SELECT max(rowid) FROM {table}")
    for number, first in enumerate(range(0, last + 1, _ROWS_AT_A_TIME)):
        connection.execute(
            f"COPY (SELECT *, rowid AS {quote_identifier(_ROW)}, CAST(hash(user) % {partitions} AS INTEGER) AS partition FROM {table} "
            f"WHERE rowid BETWEEN {first} AND {first + _ROWS_AT_A_TIME - 1}) TO {quote_literal(str(folder))} "
            f"(FORMAT parquet, PARQUET_VERSION v2, PARTITION_BY partition, OVERWRITE_OR_IGNORE, "  # half the size of v1
            f"FILENAME_PATTERN 'rows-{number}-{{i}}')"
        )


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    query = "SELECT column_name FROM duckdb_columns() WHERE table_name = ?"
    return [name for (name,) in connection.execute(query, [table]).fetchall()]


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    (rows,) = fetch_aggregates(connection, f"SELECT count(*) FROM {table}")
    return rows
