"""Build the SQL of times and days: numbers, strings and timestamps in any time zone.

Times are integers: ticks since 1970-01-01 UTC. The unit is a number of ticks per second: 1, 1,000 or 1,000,000.
"""

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.column_declarations import TimeColumn
from deep_interest.sources.tables.columns import INTEGERS, STEPS_BEFORE_LAST, RawTable
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles, TableFiles
from deep_interest.sources.tables.files import DATE_FORMATS
from deep_interest.sources.tables.scan import fetch_aggregates

_TICKS_PER_SECOND = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}
_NUMERIC_TYPES = INTEGERS | {"UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE"}
_NUMERIC_DATES = (
    ("%Y%m%d", 19000101, 21991231),
    ("%Y%m%d%H%M%S", 19000101000000, 21991231235959),
)  # format, first and last value
_LATEST = 7_258_118_400  # seconds: the year 2200
# a numeric UTC offset, Z, or a time zone name at the end of a time
_OFFSET = r":\d{2}(\.\d+)? ?([+-]\d{2}(:?\d{2})?|[A-Za-z][A-Za-z_/+-]*\d*)$"


def ticks_per_second(connection: duckdb.DuckDBPyConnection, table: RawTable) -> int:
    """Return the unit of a table's times: as declared for numbers, milliseconds for strings and timestamps."""
    block = table.block
    assert isinstance(block, BehaviorFiles | ImpressionFiles)
    if is_ordered(block):
        return 1
    columns = [block.time]
    if isinstance(block, ImpressionFiles) and block.click_time:
        columns.append(block.click_time)
    return max(ticks_of_column(connection, table, column) for column in columns)


def ticks_of_column(connection: duckdb.DuckDBPyConnection, table: RawTable, time: TimeColumn) -> int:
    """Return the unit of a column of times: as declared for numbers, milliseconds for strings and timestamps."""
    if time.unit:
        return _TICKS_PER_SECOND[time.unit]
    return _TICKS_PER_SECOND["seconds" if _is_numeric(connection, table, time) else "milliseconds"]


def is_ordered(block: TableFiles) -> bool:
    """Return whether the rows have no times but are in order."""
    return isinstance(block, BehaviorFiles | ImpressionFiles) and block.order is not None


def time_sql(
    connection: duckdb.DuckDBPyConnection, table: RawTable, time: TimeColumn, time_zone: str, ticks: int
) -> str:
    """Return SQL of a time in ticks since 1970-01-01 UTC; NULL if the value cannot be parsed.

    Args:
        connection: database with the raw tables.
        table: raw table with the time column.
        time: declaration of the time column.
        time_zone: zone of strings without a UTC offset, unless ``time.zone`` is set.
        ticks: ticks per second of the result.

    Raises:
        InputError: numeric times are after the year 2200, so their unit must be wrong, or all are dates such as 20240325.
    """
    column = quote_identifier(time.column)
    if _is_numeric(connection, table, time):
        if not time.unit:
            _check_no_dates(connection, table, time.column)
        factor = ticks // _TICKS_PER_SECOND[time.unit or "seconds"]
        sql = _numeric_time_sql(column, table.column_types[time.column], factor)
        _check_range(connection, table, time, sql, ticks)
    else:
        timestamp = _timestamp_sql(column, table.column_types[time.column], time, time.zone or time_zone)
        sql = f"CAST(floor(epoch_us({timestamp}) / {1_000_000 // ticks}) AS BIGINT)"
    return f"({sql} - {quote_identifier(STEPS_BEFORE_LAST)})" if table.from_sequences else sql


def local_time_sql(part: str, time: str, ticks: int, time_zone: str) -> str:
    """Return SQL of a part of the local time.

    Args:
        part: ``day`` (days since 1970-01-01), ``hour`` (0 to 23) or ``weekday`` (1 for Monday to 7 for Sunday).
        time: SQL of the time in ticks since 1970-01-01 UTC.
        ticks: ticks per second of ``time``.
        time_zone: zone of the local time.
    """
    if time_zone == "UTC" and part == "day":
        return f"CAST(floor({time} / {86_400 * ticks}) AS INTEGER)"
    local = f"timezone({quote_literal(time_zone)}, make_timestamptz({time} * {1_000_000 // ticks}))"
    if part == "day":
        return f"CAST(date_diff('day', DATE '1970-01-01', CAST({local} AS DATE)) AS INTEGER)"
    return f"CAST({'hour' if part == 'hour' else 'isodow'}({local}) AS INTEGER)"


def date_column_sql(table: RawTable, column: str) -> str:
    """Return SQL of a date column as days since 1970-01-01; NULL if the value cannot be parsed."""
    type_ = table.column_types[column]
    if type_ == "DATE" or type_.startswith("TIMESTAMP"):
        return (
            f"CAST(date_diff('day', DATE '1970-01-01', CAST({quote_identifier(column)} AS DATE)) AS INTEGER)"
        )
    parsed = f"try_strptime(CAST({quote_identifier(column)} AS VARCHAR), {list(DATE_FORMATS)!r})"
    return f"CAST(date_diff('day', DATE '1970-01-01', CAST({parsed} AS DATE)) AS INTEGER)"


def _is_numeric(connection: duckdb.DuckDBPyConnection, table: RawTable, time: TimeColumn) -> bool:
    if time.unit:
        return True
    if time.format or table.column_types[time.column] != "VARCHAR":
        return table.column_types[time.column] in _NUMERIC_TYPES and not time.format
    column = quote_identifier(time.column)
    values, numbers = fetch_aggregates(
        connection, f"SELECT count({column}), count(TRY_CAST({column} AS DOUBLE)) FROM {table.name}"
    )
    return values > 0 and 2 * numbers > values  # a few invalid values do not change the type of the column


def _numeric_time_sql(column: str, type_: str, factor: int) -> str:
    if type_ in INTEGERS:
        return f"CAST({column} AS BIGINT) * {factor}"
    string, number = f"CAST({column} AS VARCHAR)", f"TRY_CAST({column} AS DOUBLE)"
    return (
        f"(CASE WHEN regexp_full_match({string}, '[+-]?[0-9]+') THEN TRY_CAST({string} AS BIGINT) * {factor} "
        f"WHEN isfinite({number}) THEN TRY_CAST(floor({number} * {factor}) AS BIGINT) END)"
    )


def _check_no_dates(connection: duckdb.DuckDBPyConnection, table: RawTable, column: str) -> None:
    """Raise an error if all numbers are dates, such as 20240325 or 20240325101500, and no unit is declared."""
    name = quote_identifier(column)
    low, high = fetch_aggregates(
        connection,
        f"SELECT min(TRY_CAST({name} AS DOUBLE)), max(TRY_CAST({name} AS DOUBLE)) FROM {table.name}",
    )
    for pattern, first, last in _NUMERIC_DATES:
        if low is None or not first <= low <= high <= last:
            continue
        text = f"CAST({name} AS VARCHAR)"
        others, example = fetch_aggregates(
            connection,
            f"SELECT count(*) FILTER (try_strptime({text}, '{pattern}') IS NULL), min({text}) FROM {table.name} WHERE {name} IS NOT NULL",
        )
        if not others:
            raise InputError(
                f"{table.display_name}, column {column}: the numbers are dates, for example {example}; set source.{table.target}.time: "
                f'{{column: {column}, format: "{pattern}"}}, or a unit if they are times since 1970'
            )


def _check_range(
    connection: duckdb.DuckDBPyConnection, table: RawTable, time: TimeColumn, sql: str, ticks: int
) -> None:
    latest = fetch_aggregates(connection, f"SELECT max({sql}) FROM {table.name}")[0]
    if latest is None or latest <= _LATEST * ticks:
        return
    unit = time.unit or "seconds"
    value = latest * _TICKS_PER_SECOND[unit] // ticks
    plausible = [name for name, factor in _TICKS_PER_SECOND.items() if value <= _LATEST * factor]
    advice = f"set unit: {plausible[0]}" if plausible else "check the column"
    raise InputError(
        f"{table.display_name}, column {time.column}: the latest time, {value} {unit} since 1970, is after the year "
        f"2200; {advice} (source.{table.target}.time: {{column: {time.column}, unit: …}})"
    )


def _timestamp_sql(column: str, type_: str, time: TimeColumn, time_zone: str) -> str:
    """Return SQL of a TIMESTAMP WITH TIME ZONE."""
    local = f"timezone({quote_literal(time_zone)}, {{}})"
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return column
    if type_.startswith("TIMESTAMP") or type_ == "DATE":
        return local.format(f"CAST({column} AS TIMESTAMP)")
    string = f"CAST({column} AS VARCHAR)"
    if time.format:
        parsed = f"try_strptime({string}, {quote_literal(time.format)})"
        return f"TRY_CAST({parsed} AS TIMESTAMPTZ)" if "%z" in time.format else local.format(parsed)
    return (
        f"(CASE WHEN regexp_matches({string}, '{_OFFSET}') THEN TRY_CAST({string} AS TIMESTAMPTZ) "
        f"ELSE {local.format(f'TRY_CAST({string} AS TIMESTAMP)')} END)"
    )
