"""Build the SQL of feature columns: plain values, numbers, and multi-hot value sets."""

from collections.abc import Sequence

import duckdb

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.columns import INTEGERS, RATING, RawTable
from deep_interest.sources.tables.decimals import (
    example_without_number,
    notation_hint,
    number_sql,
    numbers_like_thousands,
)
from deep_interest.sources.tables.declaration import BehaviorFiles
from deep_interest.sources.tables.lists import bracketed_list_sql
from deep_interest.sources.tables.scan import fetch_aggregates


def select_features(
    checks: RowChecks,
    table: RawTable,
    tables: Sequence[RawTable],
    features: FeatureColumns,
) -> list[str]:
    """Return the SELECT expressions of a raw table's features.

    Args:
        checks: row checks of this run, with the database of the raw tables; gets a note about ambiguous numbers.
        table: raw table to select from.
        tables: all raw tables of the same canonical table; a feature with different types becomes a string.
        features: feature columns, with their numeric features and multi-hot separators.

    Raises:
        InputError: a feature with buckets or a standardised one has a value that is not a number, or a value of a list contains the
            separator.
    """
    columns = []
    for name in table.feature_columns:
        if name == RATING and isinstance(table.block, BehaviorFiles) and table.block.rating:
            continue  # a required column of the behaviours
        types = {
            other.column_types[other.feature_columns[name]]
            for other in tables
            if name in other.feature_columns
        }
        if name in features.numeric:
            option = "buckets" if name in features.buckets else "standardised"
            _check_numbers(checks.connection, table, name, option)
            _note_thousands(checks, table, name)
            sql = _number_sql(table, name)
        elif name in features.multi_hot:
            separator = features.multi_hot[name].separator
            _check_separator(checks.connection, table, name, separator)
            sql = _value_set_sql(table, name, separator)
        else:
            sql = _plain_sql(table, name, as_string=len(types) > 1)
        columns.append(f"{sql} AS {quote_identifier(name)}")
    return columns


def _number_sql(table: RawTable, feature: str) -> str:
    value = number_sql(table, table.feature_columns[feature])
    return f"CASE WHEN NOT isnan({value}) THEN {value} END"


def _plain_sql(table: RawTable, feature: str, *, as_string: bool) -> str:
    """Return SQL that keeps integers, booleans and strings and casts all other types to strings."""
    name = table.feature_columns[feature]
    column, type_ = quote_identifier(name), table.column_types[name]
    if type_ in INTEGERS or type_ in ("BOOLEAN", "VARCHAR"):
        return f"CAST({column} AS VARCHAR)" if as_string else column
    if type_ in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN NOT isnan({column}) THEN CAST({column} AS VARCHAR) END"
    return f"CAST({column} AS VARCHAR)"


def _value_set_sql(table: RawTable, feature: str, separator: str) -> str:
    """Return SQL of a value set as one string, its values joined by ``separator``."""
    joined = f"array_to_string({_list_sql(table, feature)}, {quote_literal(separator)})"
    column = quote_identifier(table.feature_columns[feature])
    return f"nullif(coalesce({joined}, CAST({column} AS VARCHAR)), '')"


def _list_sql(table: RawTable, feature: str) -> str:
    """Return SQL of the strings in a Parquet list or JSON array; NULL if the value is a plain string."""
    name = table.feature_columns[feature]
    column, type_ = quote_identifier(name), table.column_types[name]
    if type_.endswith("]"):
        return f"CAST({column} AS VARCHAR[])"
    if type_ != "VARCHAR":
        return "CAST(NULL AS VARCHAR[])"
    return bracketed_list_sql(column)


def _check_numbers(connection: duckdb.DuckDBPyConnection, table: RawTable, name: str, option: str) -> None:
    rows, value = example_without_number(connection, table, table.feature_columns[name])
    if rows:
        advice = (
            notation_hint(value, table.target) or f"Fix the values, or remove {name} from features.{option}."
        )
        raise InputError(
            f"{table.display_name}, column {table.feature_columns[name]}: found {rows:,} value(s) that are not "
            f"numbers, for example {value!r}; features.{option} needs numbers. {advice}"
        )


def _note_thousands(checks: RowChecks, table: RawTable, name: str) -> None:
    """Note that the points of a column may separate thousands, if each is followed by three digits."""
    column = table.feature_columns[name]
    rows, example = numbers_like_thousands(checks.connection, table, column)
    if rows:
        note = (
            f"numbers such as {example} in {table.target}.{name}: every point is followed by three digits; if it separates thousands, set "
            f"decimal: comma and thousands: point in source.{table.target}"
        )
        checks.notes[note] = rows


def _check_separator(
    connection: duckdb.DuckDBPyConnection, table: RawTable, name: str, separator: str
) -> None:
    rows, value = fetch_aggregates(
        connection,
        f"SELECT count(*), min(value) FROM (SELECT unnest({_list_sql(table, name)}) AS value FROM {table.name}) "
        "WHERE contains(value, $separator)",
        {"separator": separator},
    )
    if rows:
        raise InputError(
            f"{table.display_name}, column {table.feature_columns[name]}: found {rows:,} list value(s) that contain "
            f"the separator {separator!r}, for example {value!r}; set features.multi_hot.{name} to a separator that no "
            "value contains"
        )
