"""Advice for messages about a declaration that does not fit its files."""

import difflib
from collections.abc import Sequence
from itertools import product

import duckdb

from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.declaration import TableFiles

_DATES = (
    "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y%m%d", "%d.%m.%y", "%m/%d/%y",
    "%d/%m/%y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y",
)  # fmt: skip
_CLOCKS = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %I:%M %p",
    " %I:%M:%S %p",
    "T%H:%M:%S",
    "T%H:%M",
    ", %H:%M",
    " %H.%M",
    " %H:%M:%S.%f",
)
_SEPARATORS = (" ", ",", ";", "|", "\t")


def missing_column(
    role: str, column: str, block: TableFiles, available: Sequence[str], wanted: Sequence[str]
) -> str:
    """Say what may be wrong if a declared column is not in the files.

    Args:
        role: key of the block that names the column.
        column: name of the missing column.
        block: declaration of the table.
        available: columns of the files.
        wanted: all columns that the block uses.
    """
    similar = difflib.get_close_matches(column, available, n=1, cutoff=0.7)
    if similar:
        return f"; did you mean {similar[0]}?"
    if role == "time" and hasattr(block, "order"):
        return "; if the rows have no times but are in order, set order: file"
    if len(available) == 1:
        return "; the first line has a single value: check delimiter and names"
    if not block.names and not set(wanted) & set(available):
        return "; if the file has no header, set names"
    return ""


def time_format(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    """Name the time formats that fit every value of a column of strings; empty if there are none."""
    name = quote_identifier(column)
    formats = [date + clock for date, clock in product(_DATES, _CLOCKS)]
    counts = ", ".join(f"count(try_strptime(value, {quote_literal(pattern)}))" for pattern in formats)
    (row,) = connection.execute(
        f"SELECT count(*), {counts} FROM (SELECT DISTINCT CAST({name} AS VARCHAR) AS value FROM {table} "
        f"WHERE {name} IS NOT NULL LIMIT 10000)"
    ).fetchall()
    fitting = [pattern for pattern, count in zip(formats, row[1:], strict=True) if count == row[0] > 0]
    choices = " or ".join(f'"{pattern}"' for pattern in fitting[:2])
    return f"The values fit time: {{column: {column}, format: {choices}}}." if fitting else ""


def list_separator(
    connection: duckdb.DuckDBPyConnection, table: str, column: str, separator: str
) -> str | None:
    """Return another separator that most lists of a column contain; None if the declared one occurs or none does."""
    name = quote_identifier(column)
    counts = ", ".join(
        f"count(*) FILTER (contains({name}, {quote_literal(text)}))" for text in (separator, *_SEPARATORS)
    )
    (row,) = connection.execute(f"SELECT count({name}), {counts} FROM {table}").fetchall()
    rows, declared, *others = row
    if declared:
        return None
    return next((text for text, count in zip(_SEPARATORS, others, strict=True) if 2 * count > rows), None)
