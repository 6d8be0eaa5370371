"""Count declared tables without making canonical ones: rows, ids, and values of features."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID, USER_ID, FeatureColumns
from deep_interest.sources.database import connect, restrict_to_files
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.columns import RawTable
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles, Source, TableFiles
from deep_interest.sources.tables.encodings import convert_to_utf8
from deep_interest.sources.tables.files import ResolvedFiles, resolve_files
from deep_interest.sources.tables.scan import common_columns, fetch_aggregates, load_files

_EXACT = 10_000_000  # rows up to which distinct values are counted exactly; HyperLogLog beyond
_MEMORY = "1GB"  # of DuckDB; more spills to disk


@dataclass(frozen=True)
class TableCounts:
    """Counts of a source.

    Attributes:
        users, items: distinct ids of behaviours and impressions, and of the item table.
        behaviors, impressions: rows.
        values: ``{feature: distinct values}``.
        raw_bytes: size of the files.
    """

    users: int
    items: int
    behaviors: int
    impressions: int
    values: dict[str, int]
    raw_bytes: int


def count_tables(folder: Path, source: Source, features: FeatureColumns) -> TableCounts:
    """Count the tables that ``source`` declares; every row counts, valid or not.

    Args:
        folder: folder that relative file names refer to.
        source: declaration of files and columns.
        features: feature columns.

    Raises:
        InputError: a file or column is missing, a file is damaged, or the files have lists of items.
    """
    names = {
        "behaviors": list(features.own_columns),
        "items": [name for name in features.item if name != ITEM_ID],
        "users": [name for name in features.profile if name != USER_ID],
        "impressions": list(features.columns_of_impressions),
    }
    with tempfile.TemporaryDirectory() as copies, connect() as connection:
        resolved = _resolve(folder, source, Path(copies), list(names))
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        restrict_to_files(connection, [file for _, _, files in resolved for file in files.files])
        tables = [
            _load(connection, f"{target}_{number}", target, block, files, names[target])
            for number, (target, block, files) in enumerate(resolved)
        ]
        rows = {
            target: sum(_rows(connection, table) for table in tables if table.target == target)
            for target in names
        }
        return TableCounts(
            users=_distinct(connection, [(t.name, t.user_columns) for t in tables if t.user_columns]),
            items=_distinct(connection, [(t.name, t.item_columns) for t in tables if t.item_columns]),
            behaviors=rows["behaviors"] + (rows["impressions"] if source.uses_clicks else 0),
            impressions=rows["impressions"],
            values={name: _values(connection, tables, name) for of in names.values() for name in of if _tables_with(tables, name)},
            raw_bytes=sum(file.stat().st_size for _, _, files in resolved for file in files.originals),
        )  # fmt: skip


def _resolve(
    folder: Path, source: Source, copies: Path, targets: Sequence[str]
) -> list[tuple[str, TableFiles, ResolvedFiles]]:
    found = []
    for target in targets:
        for number, block in enumerate(getattr(source, target)):
            if isinstance(block, BehaviorFiles | ImpressionFiles) and (block.list_column or block.history):
                raise InputError(
                    f"source.{target}: the files have lists of items, which are not counted before they are read; give the counts "
                    "with --users, --items, --behaviors and --samples"
                )
            if files := resolve_files(folder, block, page=source.page):
                found.append((target, block, convert_to_utf8(files, block, copies / f"{target}{number}")))
    return found


def _load(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    target: str,
    block: TableFiles,
    files: ResolvedFiles,
    features: list[str],
) -> RawTable:
    columns = common_columns(files, block, skip_bad=True)
    table = RawTable.resolve(name, target, block, files.display_name, columns, features)
    needed = [*table.user_columns, *table.item_columns, *table.feature_columns.values()]
    load_files(connection, name, files, block, needed, skip_bad=True)
    return table


def _rows(connection: duckdb.DuckDBPyConnection, table: RawTable) -> int:
    return int(fetch_aggregates(connection, f"SELECT count(*) FROM {table.name}")[0])


def _distinct(connection: duckdb.DuckDBPyConnection, columns: Sequence[tuple[str, Sequence[str]]]) -> int:
    """Count the distinct ids of several tables; several columns are one id."""
    selects = [
        f"SELECT concat_ws(chr(31), {', '.join(f'CAST({quote_identifier(c)} AS VARCHAR)' for c in names)}) AS id FROM {table}"
        for table, names in columns
    ]
    union = " UNION ALL ".join(selects)
    (rows,) = fetch_aggregates(connection, f"SELECT count(*) FROM ({union})")
    function = "count(DISTINCT id)" if rows <= _EXACT else "approx_count_distinct(id)"
    return int(fetch_aggregates(connection, f"SELECT {function} FROM ({union}) WHERE id <> ''")[0])


def _tables_with(tables: Sequence[RawTable], name: str) -> list[tuple[str, Sequence[str]]]:
    return [(table.name, [table.feature_columns[name]]) for table in tables if name in table.feature_columns]


def _values(connection: duckdb.DuckDBPyConnection, tables: Sequence[RawTable], name: str) -> int:
    return _distinct(connection, _tables_with(tables, name))
