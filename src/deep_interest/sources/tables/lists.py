"""Rows with lists of items, and logs without times: one row per item, in the order of the files."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import local_path, quote_identifier, quote_literal
from deep_interest.sources.tables.columns import LABEL_IN_LIST, POSITION, STEPS_BEFORE_LAST, RawTable
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles
from deep_interest.sources.tables.hints import list_separator
from deep_interest.sources.tables.scan import SOURCE_FILE, fetch_aggregates

_IDS = '"ids of the list"'


def number_rows(connection: duckdb.DuckDBPyConnection, table: RawTable, files: Sequence[Path]) -> None:
    """Add the column `POSITION`: the number of earlier rows, file after file.

    Args:
        connection: database with the raw tables.
        table: raw table, as it was loaded.
        files: its files in order.
    """
    file = f"list_position($files, {quote_identifier(SOURCE_FILE)})"
    _replace(
        connection,
        table.name,
        f"SELECT *, row_number() OVER (ORDER BY {file}, rowid) - 1 AS {quote_identifier(POSITION)} FROM {table.name}",
        {"files": [local_path(path) for path in files]},
    )


def explode_lists(
    connection: duckdb.DuckDBPyConnection, table: RawTable, parallel: Sequence[str] = ()
) -> None:
    """Replace each row by one row per item of its list; the column then contains a single id.

    Behaviours get the column `STEPS_BEFORE_LAST`, items with labels get `LABEL_IN_LIST`.

    Args:
        connection: database with the raw tables.
        table: raw table with a list in each row.
        parallel: further columns with a list of the same length in each row, such as the times of the items.

    Raises:
        InputError: no list contains the declared separator, but most contain another one, or a list in brackets is not JSON.
    """
    block = table.block
    assert isinstance(block, BehaviorFiles | ImpressionFiles)
    assert block.list_column is not None
    if table.column_types[block.list_column] == "VARCHAR":
        check_brackets(connection, table, block.list_column)
        other = list_separator(connection, table.name, block.list_column, block.separator)
        if other is not None:
            raise InputError(
                f"{table.display_name}, column {block.list_column}: no list contains the separator {block.separator!r}, but most contain "
                f"{other!r}; set source.{table.target}.separator"
            )
    column, steps = quote_identifier(block.list_column), quote_identifier(STEPS_BEFORE_LAST)
    ids = list_sql(table, block.list_column, block.separator)
    if not parallel:
        ids = f"list_filter({ids}, lambda id: id <> '')"
    values = ", ".join(f"unnest({name}) AS {name}" for name in map(quote_identifier, parallel))
    before_row = 1 if isinstance(block, BehaviorFiles) and block.history else 0
    _replace(
        connection,
        table.name,
        f"""SELECT * EXCLUDE ({_IDS}) REPLACE (unnest({_IDS}) AS {column}{values and f", {values}"}),
                   len({_IDS}) - unnest(range(1, len({_IDS}) + 1)) + {before_row} AS {steps}
            FROM (SELECT *, {ids} AS {_IDS} FROM {table.name})""",
    )
    if isinstance(block, BehaviorFiles):
        table.from_sequences = block.order is None and block.time.column not in parallel
        if block.order:
            _renumber(connection, table.name)
    elif block.label.separator:
        _split_labels(connection, table.name, column, block.label.separator)
    elif block.label.clicked:
        _label_clicked(connection, table, column, block.label.clicked, block.separator)


def keep_first_histories(
    connection: duckdb.DuckDBPyConnection, table: RawTable, time: str, *, invalid_first: bool
) -> int:
    """Keep the earliest row of each user.

    Args:
        connection: database with the raw tables.
        table: raw table with a history in each row.
        time: SQL of the row's time.
        invalid_first: whether a row without a valid time comes first, so that it raises an error later.

    Returns:
        Number of rows removed.
    """
    user = ", ".join(map(quote_identifier, table.user_columns))
    nulls = "FIRST" if invalid_first else "LAST"
    (rows,) = fetch_aggregates(connection, f"SELECT count(*) FROM {table.name}")
    _replace(
        connection,
        table.name,
        f"SELECT * FROM {table.name} QUALIFY row_number() OVER "
        f"(PARTITION BY {user} ORDER BY {time} NULLS {nulls}, rowid) = 1 ORDER BY rowid",
    )
    return rows - fetch_aggregates(connection, f"SELECT count(*) FROM {table.name}")[0]


def count_repeated_lists(connection: duckdb.DuckDBPyConnection, table: RawTable) -> int:
    """Return the number of rows that repeat a list of the same user."""
    user = ", ".join(map(quote_identifier, table.user_columns))
    name = quote_identifier(table.item_columns[0])
    (rows,) = fetch_aggregates(
        connection,
        f"SELECT count(*) - count(DISTINCT hash({user}, {name})) FROM {table.name} WHERE {name} IS NOT NULL",
    )
    return rows


def _split_labels(connection: duckdb.DuckDBPyConnection, table: str, column: str, separator: str) -> None:
    """Split each item of a list at the last separator into id and label; without a separator the label is NULL."""
    parts, label = f"string_split({column}, {quote_literal(separator)})", quote_identifier(LABEL_IN_LIST)
    item = f"CASE WHEN len({parts}) > 1 THEN array_to_string({parts}[:-2], {quote_literal(separator)}) ELSE {column} END"
    value = f"CASE WHEN len({parts}) > 1 THEN {parts}[-1] END"
    _replace(connection, table, f"SELECT * REPLACE ({item} AS {column}), {value} AS {label} FROM {table}")


def _label_clicked(
    connection: duckdb.DuckDBPyConnection, table: RawTable, column: str, clicked: str, separator: str
) -> None:
    """Label the items of each list that its list of clicked items contains."""
    contains = f"list_contains({list_sql(table, clicked, separator)}, {column})"
    label = f"CASE WHEN coalesce({contains}, false) THEN '1' ELSE '0' END"
    _replace(
        connection, table.name, f"SELECT *, {label} AS {quote_identifier(LABEL_IN_LIST)} FROM {table.name}"
    )


def list_sql(table: RawTable, name: str, separator: str) -> str:
    """Return SQL of the ids in a list: of Parquet or JSON, or joined by the separator."""
    column, type_ = quote_identifier(name), table.column_types[name]
    if type_.endswith("]"):
        return f"CAST({column} AS VARCHAR[])"
    text = f"CAST({column} AS VARCHAR)"
    split = f"string_split({text}, {quote_literal(separator)})"
    return f"coalesce({bracketed_list_sql(text)}, {split})"


def bracketed_list_sql(text: str) -> str:
    """Return SQL of the strings in a JSON array, or in a list as Python writes it; NULL for other strings."""
    array = f"CASE WHEN starts_with(ltrim({text}), '[') THEN {text} END"
    python = f"replace({array}, chr(39), chr(34))"  # quotation marks
    return f"json_extract_string(coalesce(TRY_CAST({array} AS JSON), TRY_CAST({python} AS JSON)), '$[*]')"


def check_brackets(connection: duckdb.DuckDBPyConnection, table: RawTable, column: str) -> None:
    """Raise an error for lists in brackets that cannot be read, such as NumPy's ``[1 2 3]``."""
    text = f"CAST({quote_identifier(column)} AS VARCHAR)"
    in_brackets = f"starts_with(ltrim({text}), '[') AND ends_with(rtrim({text}), ']')"
    rows, example = fetch_aggregates(
        connection,
        f"SELECT count(*), min({text}) FROM {table.name} WHERE {in_brackets} AND {bracketed_list_sql(text)} IS NULL",
    )
    if rows:
        raise InputError(
            f"{table.display_name}, column {column}: found {rows:,} list(s) in brackets that are not JSON, for example {example[:60]!r}; "
            "write them as [1, 2] or, without brackets, as 1 2"
        )


def _renumber(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    position, steps = quote_identifier(POSITION), quote_identifier(STEPS_BEFORE_LAST)
    number = f"row_number() OVER (ORDER BY {position}, {steps} DESC) - 1"
    _replace(connection, table, f"SELECT * REPLACE ({number} AS {position}) FROM {table}")


def _replace(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    select: str,
    parameters: dict[str, object] | None = None,
) -> None:
    """Replace a table by the result of a query on it."""
    connection.execute(f"CREATE TABLE {table}_rows AS {select}", parameters or {})
    connection.execute(f"DROP TABLE {table}; ALTER TABLE {table}_rows RENAME TO {table}")
