"""Build the SQL of numbers that are written as strings, with a decimal mark and separators of thousands."""

import re

import duckdb

from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.columns import RawTable
from deep_interest.sources.tables.scan import fetch_aggregates

_THOUSANDS = r"\s*[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+\s*"
_FEWEST_ALIKE = 5
_SPACES, _APOSTROPHES = " \u00a0\u202f", "'\u2019"  # also as typographers write them


def number_sql(table: RawTable, column: str) -> str:
    """Return SQL of a column as a DOUBLE; NULL if it is not a number in the table's notation.

    ``1.234,5`` is a number with ``decimal: comma`` and ``thousands: point``; ``1.5`` is not, because a group has three
    digits.
    """
    name, block = quote_identifier(column), table.block
    if table.column_types[column] != "VARCHAR" or (block.decimal == "." and block.thousands is None):
        return f"TRY_CAST({name} AS DOUBLE)"
    mark, separators = f"[{block.decimal}]", _separators(block.thousands)
    groups = rf"|[0-9]{{1,3}}([{separators}][0-9]{{3}})+" if separators else ""
    pattern = rf"[+-]?(([0-9]+{groups})({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"
    digits = f"translate(trim({name}), {quote_literal(separators)}, '')"
    number = f"replace({digits}, {quote_literal(block.decimal)}, '.')"
    return f"CASE WHEN regexp_full_match(trim({name}), {quote_literal(pattern)}) THEN TRY_CAST({number} AS DOUBLE) END"


def example_without_number(
    connection: duckdb.DuckDBPyConnection, table: RawTable, column: str
) -> tuple[int, str]:
    """Return the number of values of a column that are not numbers in the table's notation, and one of them."""
    name = quote_identifier(column)
    return fetch_aggregates(
        connection,
        f"SELECT count(*), coalesce(min(CAST({name} AS VARCHAR)), '') FROM {table.name} "
        f"WHERE {name} IS NOT NULL AND ({number_sql(table, column)}) IS NULL",
    )


def numbers_like_thousands(
    connection: duckdb.DuckDBPyConnection, table: RawTable, column: str
) -> tuple[int, str]:
    """Return the number of values such as ``1.011``, and one of them, if every value with a point is like that; else 0."""
    block = table.block
    if table.column_types[column] != "VARCHAR" or block.thousands or block.decimal != ".":
        return 0, ""
    name = quote_identifier(column)
    points, alike, example = fetch_aggregates(
        connection,
        f"SELECT count(*), count(*) FILTER (regexp_full_match({name}, '{_THOUSANDS}')), min({name}) FROM {table.name} "
        f"WHERE contains({name}, '.')",
    )
    return (alike, example) if points == alike >= _FEWEST_ALIKE else (0, "")


def notation_hint(value: str, target: str) -> str:
    """Return advice for a value that looks like a number in another notation; empty for other values.

    Args:
        value: value of a column that should have numbers.
        target: canonical table of the column.
    """
    options = []
    if re.fullmatch(r"[+-]?\d{1,3}([.\s\u00a0\u202f'’]\d{3})+,\d*", value):
        options = ["decimal: comma", "thousands: " + _name(re.sub(r"[\d+-]", "", value)[0])]
    elif re.fullmatch(r"[+-]?\d+,\d*", value):
        options = ["decimal: comma"]
    elif re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+\.\d*", value):
        options = ["thousands: comma"]
    return f"If it is a number, set {' and '.join(options)} in source.{target}." if options else ""


def _separators(thousands: str | None) -> str:
    return {None: "", " ": _SPACES, "'": _APOSTROPHES}.get(thousands, thousands or "")


def _name(separator: str) -> str:
    return "point" if separator == "." else "apostrophe" if separator in _APOSTROPHES else "space"
