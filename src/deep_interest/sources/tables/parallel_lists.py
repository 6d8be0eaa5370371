"""Columns with lists of the same length in every row, such as the items of a history and their categories."""

from collections.abc import Sequence

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.columns import RawTable
from deep_interest.sources.tables.hints import list_separator
from deep_interest.sources.tables.lists import check_brackets, list_sql
from deep_interest.sources.tables.scan import SOURCE_FILE, fetch_aggregates

_SHOWN = 60  # characters of a list in a message


def check_lists(
    checks: RowChecks, table: RawTable, columns: Sequence[str], separator: str, *, key: str
) -> None:
    """Check that the lists of each row can be split and have the same length; with ``on_bad_line: skip``, drop other rows.

    Args:
        checks: row checks of this run.
        table: raw table with one row per list.
        columns: columns with the lists.
        separator: separator between the values of a list.
        key: key of the source that declares the separator, for messages.

    Raises:
        InputError: no list contains the separator, but most contain another one, a list in brackets is not JSON, or the lists of
            a row have different lengths.
    """
    connection = checks.connection
    for column in columns:
        if table.column_types[column] != "VARCHAR":
            continue
        check_brackets(connection, table, column)
        other = list_separator(connection, table.name, column, separator)
        if other is not None:
            raise InputError(
                f"{table.display_name}, column {column}: no list contains the separator {separator!r}, but most contain {other!r}; "
                f"set {key}.separator"
            )
    lengths = [_length_sql(table, column, separator) for column in columns]
    unequal = " OR ".join(f"{length} <> {lengths[0]}" for length in lengths[1:])
    if not unequal:
        return
    values = ", ".join(
        f"min_by(CAST({quote_identifier(column)} AS VARCHAR), rowid) FILTER ({unequal})" for column in columns
    )
    counts = ", ".join(f"min_by({length}, rowid) FILTER ({unequal})" for length in lengths)
    file = f"min_by({quote_identifier(SOURCE_FILE)}, rowid) FILTER ({unequal})"
    rows, path, *found = fetch_aggregates(
        connection, f"SELECT count(*) FILTER ({unequal}), {file}, {counts}, {values} FROM {table.name}"
    )
    if not rows:
        return
    if not checks.skip:
        half = len(columns)
        examples = " and ".join(
            f"{column} has {count} ({str(value)[:_SHOWN]!r})"
            for column, count, value in zip(columns, found[:half], found[half:], strict=True)
        )
        raise InputError(
            f"{path}: {rows:,} row(s) have lists of different lengths; in the first one {examples}. The lists of a row describe the "
            "same items and need the same length. Fix the file, or set reading.on_bad_line to 'skip' to skip and count such rows."
        )
    connection.execute(f"DELETE FROM {table.name} WHERE {unequal}")
    checks.count_skipped(f"{table.target} with lists of different lengths", rows)


def zipped_sql(table: RawTable, columns: Sequence[str], separator: str, *, ids: int) -> str:
    """Return SQL of the list of tuples of several lists, without tuples whose id is empty; NULL if there is none.

    Args:
        table: raw table.
        columns: columns with the lists, first those of the id.
        separator: separator between the values of a list.
        ids: number of columns of the id.
    """
    lists = [_values_sql(table, column, separator) for column in columns]
    empty = " AND ".join(f"coalesce(element[{index}], '') = ''" for index in range(1, ids + 1))
    zipped = f"list_zip({', '.join(lists)})"
    return f"list_filter({zipped}, lambda element: NOT ({empty}))"


def explode(
    connection: duckdb.DuckDBPyConnection,
    table: RawTable,
    columns: Sequence[str],
    separator: str,
    *,
    ids: int,
) -> None:
    """Replace the rows by the distinct tuples of their lists, in the order of their first occurrence.

    Args:
        connection: database with the raw tables.
        table: raw table with one row per list.
        columns: columns with the lists, first those of the id.
        separator: separator between the values of a list.
        ids: number of columns of the id.
    """
    names = [quote_identifier(column) for column in columns]
    elements = zipped_sql(table, columns, separator, ids=ids)
    values = ", ".join(f"element[{index}] AS {name}" for index, name in enumerate(names, start=1))
    file = quote_identifier(SOURCE_FILE)
    connection.execute(
        f"""CREATE TABLE {table.name}_elements AS
            SELECT {values}, first AS {file} FROM (
                SELECT element, min(place) AS place, min({file}) AS first FROM (
                    SELECT rowid AS place, {file}, unnest({elements}) AS element FROM {table.name}
                ) GROUP BY element
            ) ORDER BY place"""
    )
    connection.execute(f"DROP TABLE {table.name}; ALTER TABLE {table.name}_elements RENAME TO {table.name}")


def _values_sql(table: RawTable, column: str, separator: str) -> str:
    """Return SQL of the list of a column as strings; without elements if the value is missing."""
    return f"coalesce({list_sql(table, column, separator)}, CAST([] AS VARCHAR[]))"


def _length_sql(table: RawTable, column: str, separator: str) -> str:
    """Return SQL of the length of a list; an empty string has no element."""
    name = quote_identifier(column)
    empty = f"CAST({name} AS VARCHAR) = {quote_literal('')}"
    return f"(CASE WHEN {name} IS NULL OR {empty} THEN 0 ELSE len({list_sql(table, column, separator)}) END)"
