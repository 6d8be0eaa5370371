"""Given samples: the split and the history of each row, and the rows that were shown together."""

import dataclasses
from collections.abc import Sequence
from pathlib import PurePath

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.column_declarations import SplitColumn
from deep_interest.sources.tables.columns import (
    HISTORY_LENGTH,
    POSITION,
    SEGMENT,
    RawTable,
    RequiredColumn,
)
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles
from deep_interest.sources.tables.parallel_lists import check_lists, zipped_sql
from deep_interest.sources.tables.scan import SOURCE_FILE, fetch_aggregates

_SHOWN = 8  # values in a message


def separate_histories(
    checks: RowChecks, table: RawTable, features: Sequence[str], first_segment: int
) -> RawTable:
    """Move the histories of the rows into a table of behaviours, and give each row the segment and the length of its history.

    Each distinct history of a user is stored once. One that is the beginning of another history of the user shares its segment:
    the longer history is stored, and both are slices of it.

    Args:
        checks: row checks of this run.
        table: raw impressions; get the columns `SEGMENT` and `HISTORY_LENGTH`.
        features: requested features of the behaviours.
        first_segment: number of segments of the earlier tables.

    Returns:
        Raw table of behaviours, with the columns `SEGMENT` and `POSITION` (within the segment).

    Raises:
        InputError: lists cannot be split, or the lists of a row have different lengths.
    """
    block = table.block
    assert isinstance(block, ImpressionFiles)
    assert block.history is not None
    connection, history = checks.connection, block.history
    behaviors = _behaviors_of(table, block, features)
    lists = [*history.item, *dict.fromkeys(behaviors.feature_columns.values())]
    check_lists(checks, table, lists, history.separator, key="source.impressions.history")
    users = ", ".join(map(quote_identifier, block.user))
    elements = zipped_sql(table, lists, history.separator, ids=len(history.item))
    segments, source_file = f"{table.name}_segments", quote_identifier(SOURCE_FILE)
    connection.execute(
        f"""CREATE TABLE {segments} AS
            WITH histories AS (
                SELECT {users}, {elements} AS elements, min({source_file}) AS {source_file} FROM {table.name} GROUP BY ALL
            ), ordered AS (
                SELECT *, row_number() OVER (ORDER BY {users}, elements) AS place,
                       lead(elements) OVER (PARTITION BY {users} ORDER BY elements) AS following
                FROM histories WHERE len(elements) > 0
            ), ends AS (
                SELECT *, following IS NULL OR following[:len(elements)] IS DISTINCT FROM elements AS is_longest FROM ordered
            )
            SELECT * EXCLUDE (place, following),
                   CAST({first_segment + 1} + sum(CAST(is_longest AS INTEGER)) OVER (ORDER BY place)
                        - CAST(is_longest AS INTEGER) AS BIGINT) AS segment
            FROM ends"""
    )
    columns = ", ".join(
        f"element[{index}] AS {quote_identifier(name)}" for index, name in enumerate(lists, start=1)
    )
    connection.execute(
        f"""CREATE TABLE {behaviors.name} AS
            SELECT {users}, {source_file}, segment AS {quote_identifier(SEGMENT)}, {columns}, position AS {quote_identifier(POSITION)}
            FROM (SELECT {users}, {source_file}, segment, unnest(elements) AS element, unnest(range(len(elements))) AS position
                  FROM {segments} WHERE is_longest)
            ORDER BY segment, position"""
    )
    same_user = " AND ".join(
        f"segments.{name} IS NOT DISTINCT FROM raw.{name}" for name in map(quote_identifier, block.user)
    )
    connection.execute(
        f"""CREATE TABLE {table.name}_rows AS
            SELECT raw.* {_excluded(table, block)}, coalesce(segment, 0) AS {quote_identifier(SEGMENT)},
                   coalesce(len(elements), 0) AS {quote_identifier(HISTORY_LENGTH)}
            FROM (SELECT *, rowid AS place FROM {table.name}) raw LEFT JOIN {segments} segments
            ON {same_user} AND segments.elements = {elements}
            ORDER BY place"""
    )
    connection.execute(
        f"DROP TABLE {segments}; DROP TABLE {table.name}; ALTER TABLE {table.name}_rows DROP COLUMN place; "
        f"ALTER TABLE {table.name}_rows RENAME TO {table.name}"
    )
    behaviors.load_column_types(connection)
    table.load_column_types(connection)
    return behaviors


def count_segments(connection: duckdb.DuckDBPyConnection, behaviors: RawTable) -> int:
    """Return the number of the last segment of given histories; 0 if there is none."""
    last = fetch_aggregates(
        connection, f"SELECT coalesce(max({quote_identifier(SEGMENT)}), 0) FROM {behaviors.name}"
    )
    return last[0]


def select_given(table: RawTable, tables: Sequence[RawTable]) -> list[str]:
    """Return the SELECT expressions of the segment and length of a row's history, and of its request, where they are given.

    Args:
        table: raw table of impressions, or of given histories.
        tables: all raw tables of the same canonical table.
    """
    expressions = []
    if SEGMENT in table.column_types:
        expressions.append(f"{quote_identifier(SEGMENT)} AS segment")
    if HISTORY_LENGTH in table.column_types:
        expressions.append(f"CAST({quote_identifier(HISTORY_LENGTH)} AS INTEGER) AS history_end")
    if all(_has_requests(other) for other in tables):
        expressions.append(f"{_request_sql(table)} AS request")
    return expressions


def required_given(
    connection: duckdb.DuckDBPyConnection, table: RawTable, block: ImpressionFiles
) -> list[RequiredColumn]:
    """Return the required columns of impressions that give their split or have a weight.

    Raises:
        InputError: a row has a split that the declaration does not name.
    """
    columns = []
    if block.split:
        columns.append(_split_column(connection, table, block))
    if block.weight:
        number = f"TRY_CAST({quote_identifier(block.weight)} AS DOUBLE)"
        sql = f"CASE WHEN isfinite({number}) AND {number} >= 0 THEN CAST({number} AS FLOAT) END"
        columns.append(RequiredColumn("weight", block.weight, sql, "a number of at least 0"))
    return columns


def check_splits(connection: duckdb.DuckDBPyConnection, tables: Sequence[RawTable]) -> None:
    """Check that the declared names of splits occur, and that there are training and test rows.

    Raises:
        InputError: a name occurs in no row.
    """
    blocks = [
        (table, table.block)
        for table in tables
        if isinstance(table.block, ImpressionFiles) and table.block.split
    ]
    if not blocks:
        return
    values = {value for table, block in blocks for value in _split_values(connection, table, block)}
    present: dict[str, set[str]] = {"train": set(), "validation": set(), "test": set()}
    for table, block in blocks:
        assert block.split is not None
        for split, names in block.split.names.items():
            matched = {
                str(name) for name in names for value in values if _matches(value, str(name), block.split)
            }
            present[split] |= matched
            missing = [str(name) for name in names if str(name) not in matched]
            if missing and split in block.split.model_fields_set:
                raise InputError(_no_such_split(table, block, split, missing[0], values))
    for split in ("train", "test"):
        if not present[split]:
            table, block = blocks[0]
            assert block.split is not None
            name = str(block.split.names[split][0])
            raise InputError(_no_such_split(table, block, split, name, values))


def _no_such_split(table: RawTable, block: ImpressionFiles, split: str, name: str, values: set[str]) -> str:
    assert block.split is not None
    listed = ", ".join(sorted(values)[:_SHOWN])
    if block.split.column:
        return (
            f"{table.display_name}, column {block.split.column}: no row has the split {name!r} (source.impressions.split.{split}); the "
            f"column's values are {listed}"
        )
    return f"source.impressions.split.{split}: no file is named {name!r}; the files are {listed}"


def _split_column(
    connection: duckdb.DuckDBPyConnection, table: RawTable, block: ImpressionFiles
) -> RequiredColumn:
    """Return the split of each row as a required column."""
    assert block.split is not None
    values: dict[str, list[str]] = {}
    for value in _split_values(connection, table, block):
        splits = [
            split
            for split, names in block.split.names.items()
            if any(_matches(value, str(name), block.split) for name in names)
        ]
        if len(splits) != 1:
            raise InputError(_unclear_split(table, block, value, splits))
        values.setdefault(splits[0], []).append(value)
    column = block.split.column or SOURCE_FILE
    text = f"CAST({quote_identifier(column)} AS VARCHAR)"
    cases = " ".join(
        f"WHEN {text} IN ({', '.join(map(quote_literal, of_split))}) THEN {quote_literal(split)}"
        for split, of_split in values.items()
    )
    sql = f"CASE {cases} END" if cases else "CAST(NULL AS VARCHAR)"
    return RequiredColumn("split", column, sql, "the name of a split")


def _unclear_split(table: RawTable, block: ImpressionFiles, value: str, splits: list[str]) -> str:
    assert block.split is not None
    if splits:
        return f"source.impressions.split: {value} belongs to {' and '.join(splits)}; a row has one split"
    declared = ", ".join(str(name) for names in block.split.names.values() for name in names)
    if block.split.column:
        return (
            f"{table.display_name}, column {block.split.column}: found the split {value!r}, but source.impressions.split names "
            f"{declared}; name it under train, validation or test, or leave its rows out with where"
        )
    return (
        f"{value}: the file has no split, because source.impressions.split names {declared}; name it under train, validation or "
        "test, or remove it from files"
    )


def _split_values(
    connection: duckdb.DuckDBPyConnection, table: RawTable, block: ImpressionFiles
) -> list[str]:
    """Return the distinct names of splits in a table, or its files."""
    assert block.split is not None
    column = quote_identifier(block.split.column or SOURCE_FILE)
    rows = connection.execute(
        f"SELECT DISTINCT CAST({column} AS VARCHAR) AS value FROM {table.name} WHERE {column} IS NOT NULL ORDER BY value"
    ).fetchall()
    return [value for (value,) in rows]


def _matches(value: str, name: str, split: SplitColumn) -> bool:
    """Return whether a value is the named one, or a file has the name or pattern."""
    return value == name if split.column else PurePath(value).match(name)


def _has_requests(table: RawTable) -> bool:
    return isinstance(table.block, ImpressionFiles) and bool(table.block.request or table.block.sequence)


def _request_sql(table: RawTable) -> str:
    block = table.block
    assert isinstance(block, ImpressionFiles)
    if block.request is None:
        return f"CAST({quote_identifier(POSITION)} + {table.first_position} AS VARCHAR)"
    return " || '|' || ".join(f"CAST({quote_identifier(column)} AS VARCHAR)" for column in block.request)


def _excluded(table: RawTable, block: ImpressionFiles) -> str:
    """Return an EXCLUDE clause for the columns of the history, which lists of impressions would otherwise repeat for each item."""
    assert block.history is not None
    used = {*table.feature_columns.values(), *block.user, *block.item, block.sequence}
    lists = dict.fromkeys([*block.history.item, *block.history.columns.values()])
    names = [quote_identifier(name) for name in lists if name not in used]
    return f"EXCLUDE ({', '.join(names)})" if names else ""


def _behaviors_of(table: RawTable, block: ImpressionFiles, features: Sequence[str]) -> RawTable:
    """Return the raw table of the given histories of ``table``, before it is loaded."""
    assert block.history is not None
    history = block.history
    columns = BehaviorFiles(
        files=block.files, user=block.user, item=history.item, order="file", decimal=block.decimal, thousands=block.thousands
    )  # fmt: skip
    feature_columns = {name: history.columns[name] for name in features if name in history.columns}
    return dataclasses.replace(
        table, name=f"{table.name}_history", target="impressions.history", block=columns, feature_columns=feature_columns,
        column_types={}, first_position=0,
    )  # fmt: skip
