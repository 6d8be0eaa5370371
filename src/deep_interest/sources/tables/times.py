"""Times and days of declared tables as SQL: numbers, texts and timestamps of any zone."""

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import literal, quoted
from deep_interest.sources.tables.columns import BACK, INTEGERS, Part
from deep_interest.sources.tables.declaration import TimeColumn
from deep_interest.sources.tables.files import DATE_FORMATS
from deep_interest.sources.tables.scan import first_row

TIME_FEATURES = ("hour", "weekday")
_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}  # in a second
_NUMBERS = INTEGERS | {"UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE"}
_LATEST = 7_258_118_400  # seconds: the year 2200
_OFFSET = r":\d{2}(\.\d+)? ?([+-]\d{2}(:?\d{2})?|[A-Za-z][A-Za-z_/+-]*\d*)$"  # a number of hours, Z, or the name of a zone


def time_unit(connection: duckdb.DuckDBPyConnection, part: Part) -> int:
    """Ticks in a second of a part's times: as declared for numbers, milliseconds for texts and timestamps."""
    time = part.block.time
    if time.unit:
        return _UNITS[time.unit]
    return _UNITS["seconds"] if _is_number(connection, part, time) else _UNITS["milliseconds"]


def time_value(
    connection: duckdb.DuckDBPyConnection, part: Part, time: TimeColumn, zone: str, unit: int
) -> str:
    """SQL of the time in ticks since 1970 (UTC), ``unit`` ticks a second; NULL where it cannot be understood.

    Raises:
        InputError: numbers that lie far in the future by their unit.
    """
    column = quoted(time.column)
    if _is_number(connection, part, time):
        value = _number_of_ticks(column, part.types[time.column], unit // _UNITS[time.unit or "seconds"])
        _check_range(connection, part, time, value, unit)
    else:
        value = _ticks(_timestamp(column, part.types[time.column], time, time.zone or zone), unit)
    return f"({value} - {quoted(BACK)})" if part.exploded else value


def _is_number(connection: duckdb.DuckDBPyConnection, part: Part, time: TimeColumn) -> bool:
    if time.unit:
        return True
    if time.format or part.types[time.column] != "VARCHAR":
        return part.types[time.column] in _NUMBERS and not time.format
    column = quoted(time.column)
    there, numbers = first_row(
        connection, f"SELECT count({column}), count(TRY_CAST({column} AS DOUBLE)) FROM {part.name}"
    )
    return there > 0 and 2 * numbers > there  # a few broken values do not change what the column is


def _number_of_ticks(column: str, type_: str, factor: int) -> str:
    if type_ in INTEGERS:
        return f"CAST({column} AS BIGINT) * {factor}"
    text = f"CAST({column} AS VARCHAR)"
    return (
        f"(CASE WHEN regexp_full_match({text}, '[+-]?[0-9]+') THEN TRY_CAST({text} AS BIGINT) * {factor} "
        f"WHEN isfinite(TRY_CAST({column} AS DOUBLE)) THEN TRY_CAST(floor(TRY_CAST({column} AS DOUBLE) * {factor}) AS BIGINT) END)"
    )


def _check_range(
    connection: duckdb.DuckDBPyConnection, part: Part, time: TimeColumn, value: str, unit: int
) -> None:
    latest = first_row(connection, f"SELECT max({value}) FROM {part.name}")[0]
    if latest is None or latest <= _LATEST * unit:
        return
    declared = time.unit or "seconds"
    number = latest * _UNITS[declared] // unit
    fitting = [name for name, ticks in _UNITS.items() if number <= _LATEST * ticks]
    advice = f"set unit: {fitting[0]}" if fitting else "check the column"
    raise InputError(
        f"{part.shown}, column {time.column}: {number} {declared} since 1970 lie beyond the year 2200; {advice} "
        f"(source.{part.table}.time: {{column: {time.column}, unit: …}})"
    )


def _timestamp(column: str, type_: str, time: TimeColumn, zone: str) -> str:
    """SQL of a TIMESTAMP WITH TIME ZONE."""
    local = f"timezone({literal(zone)}, {{}})"
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return column
    if type_.startswith("TIMESTAMP") or type_ == "DATE":
        return local.format(f"CAST({column} AS TIMESTAMP)")
    text = f"CAST({column} AS VARCHAR)"
    if time.format:
        parsed = f"try_strptime({text}, {literal(time.format)})"
        return f"TRY_CAST({parsed} AS TIMESTAMPTZ)" if "%z" in time.format else local.format(parsed)
    return (
        f"(CASE WHEN regexp_matches({text}, '{_OFFSET}') THEN TRY_CAST({text} AS TIMESTAMPTZ) "
        f"ELSE {local.format(f'TRY_CAST({text} AS TIMESTAMP)')} END)"
    )


def _ticks(timestamp: str, unit: int) -> str:
    return f"CAST(floor(epoch_us({timestamp}) / {1_000_000 // unit}) AS BIGINT)"


def local_time(part: str, time: str, unit: int, zone: str) -> str:
    """SQL of the local ``day`` (since 1970-01-01), ``hour`` (0 to 23) or ``weekday`` (1, Monday, to 7) of a time in ticks."""
    if zone == "UTC" and part == "day":
        return f"CAST(floor({time} / {86_400 * unit}) AS INTEGER)"
    local = f"timezone({literal(zone)}, make_timestamptz({time} * {1_000_000 // unit}))"
    if part == "day":
        return f"CAST(date_diff('day', DATE '1970-01-01', CAST({local} AS DATE)) AS INTEGER)"
    return f"CAST({'hour' if part == 'hour' else 'isodow'}({local}) AS INTEGER)"


def day_of(part: Part, column: str) -> str:
    """SQL of a date column as days since 1970-01-01."""
    if part.types[column] == "DATE" or part.types[column].startswith("TIMESTAMP"):
        return f"CAST(date_diff('day', DATE '1970-01-01', CAST({quoted(column)} AS DATE)) AS INTEGER)"
    text = f"CAST({quoted(column)} AS VARCHAR)"
    parsed = f"try_strptime({text}, {list(DATE_FORMATS)!r})"
    return f"CAST(date_diff('day', DATE '1970-01-01', CAST({parsed} AS DATE)) AS INTEGER)"
