"""Build the SQL of canonical behaviours and impressions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import duckdb

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import TIME_FEATURES, FeatureColumns
from deep_interest.logs.tables import TRUE_PROBABILITY
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.click_times import click_time_column
from deep_interest.sources.tables.column_declarations import LabelColumn, database_strings
from deep_interest.sources.tables.columns import LABEL_IN_LIST, POSITION, IdType, RawTable, RequiredColumn
from deep_interest.sources.tables.decimals import example_without_number, notation_hint, number_sql
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles
from deep_interest.sources.tables.features import select_features
from deep_interest.sources.tables.given import required_given, select_given
from deep_interest.sources.tables.hints import label_separator, label_values, list_of_ids, time_format
from deep_interest.sources.tables.scan import fetch_aggregates
from deep_interest.sources.tables.times import (
    date_column_sql,
    is_ordered,
    local_time_sql,
    time_sql,
)

_DATE = "a date such as 2022-04-25 or 20220425 (without day, the date of time is the day)"


@dataclass(frozen=True)
class EventFormat:
    """Types and units that all events of a source share.

    Attributes:
        user_ids: type of the user ids.
        item_ids: type of the item ids.
        time_zone: time zone in which days begin at midnight.
        ticks_per_second: unit of times.
    """

    user_ids: IdType
    item_ids: IdType
    time_zone: str
    ticks_per_second: int


def select_events(
    table: RawTable,
    tables: Sequence[RawTable],
    event_format: EventFormat,
    features: FeatureColumns,
    checks: RowChecks,
) -> str:
    """Return the SELECT statement that turns a raw table into canonical behaviours or impressions.

    Args:
        table: raw table to select from.
        tables: all raw tables of the same canonical table.
        event_format: types and units of all events.
        features: feature columns and their encodings.
        checks: row checks of this run.

    Raises:
        InputError: a row has no valid id, time, rating, label or day.
    """
    block = table.block
    assert isinstance(block, BehaviorFiles | ImpressionFiles)
    ticks, zone = event_format.ticks_per_second, event_format.time_zone
    time = _time_column(table, event_format, checks)
    item = event_format.item_ids.required_column("item", table, table.item_columns)
    if block.list_column is None and len(table.item_columns) == 1:
        item = replace(
            item, suggest=partial(list_of_ids, checks.connection, table.name, table.item_columns[0])
        )
    required = [event_format.user_ids.required_column("user", table, table.user_columns), item, time]
    if isinstance(block, BehaviorFiles) and block.rating:
        required.append(_rating_column(table, block.rating, checks))
    if isinstance(block, ImpressionFiles):
        required.append(_label_column(table, block, checks))
        required += required_given(checks.connection, table, block)
        if block.click_time:
            required.append(
                click_time_column(
                    checks.connection, table, event_format.time_zone, event_format.ticks_per_second, required
                )
            )
        if TRUE_PROBABILITY in table.column_types:
            required.append(_probability_column())
    if block.day:
        sql = date_column_sql(table, block.day)
        required.append(RequiredColumn("day", block.day, sql, _DATE))
    is_valid = checks.require_values(table, required)
    selected = [f"{column.sql} AS {column.name}" for column in required] + select_given(table, tables)
    if not block.day and not is_ordered(block):
        selected.append(f"{local_time_sql('day', time.sql, ticks, zone)} AS day")
    names = (
        features.columns_of_behaviors if isinstance(block, BehaviorFiles) else features.columns_of_impressions
    )
    selected += select_features(checks, table, tables, features)
    selected += [
        f"{local_time_sql(name, time.sql, ticks, zone)} AS {quote_identifier(name)}"
        for name in names
        if name in TIME_FEATURES and name not in table.feature_columns and not is_ordered(block)
    ]
    return f"SELECT {', '.join(selected)} FROM {table.name} WHERE {is_valid}"


def check_positive_labels(connection: duckdb.DuckDBPyConnection, tables: Sequence[RawTable]) -> None:
    """Check that at least one of the declared ``label.positive`` values occurs.

    Raises:
        InputError: none occurs in any of the tables.
    """
    labels = [
        (table, table.block.label)
        for table in tables
        if isinstance(table.block, ImpressionFiles) and table.block.label.positive is not None
    ]
    value_counts: Counter[str] = Counter()
    for table, label in labels:
        column = quote_identifier(table.label_column)
        values = connection.execute(
            f"SELECT CAST({column} AS VARCHAR) v, count(*) FROM {table.name} GROUP BY v ORDER BY 2 DESC, 1"
        ).fetchall()
        if any(value in database_strings(label.positive) for value, _ in values):
            return
        value_counts.update({str(value): rows for value, rows in values})
    if value_counts:
        table, label = labels[0]
        raise InputError(
            f"{table.display_name}, column {table.label_column}: no row has a value of label.positive "
            f"({', '.join(database_strings(label.positive))}); the column's values are "
            f"{', '.join(value for value, _ in value_counts.most_common(8))}"
        )


def use_clicks(
    connection: duckdb.DuckDBPyConnection,
    behaviors: Sequence[RawTable],
    impressions: Sequence[RawTable],
    features: FeatureColumns,
    *,
    click_day: str | None = None,
) -> dict[str, int]:
    """Add the clicked impressions to the canonical behaviours.

    Args:
        connection: database with the canonical tables of ``impressions`` and, if there are any, of ``behaviors``.
        behaviors: raw tables of behaviours.
        impressions: raw tables of impressions.
        features: feature columns; features of behaviours that the impressions have are those of the click.
        click_day: SQL of the day of ``click_time``, if the impressions have it: a click is a behaviour at its own time.

    Returns:
        ``{note: number of clicks}``.

    Raises:
        InputError: there are neither behaviours nor clicks.
    """
    own = {
        name: kind
        for name, kind in _column_types(connection, "impressions").items()
        if name in features.columns_of_behaviors
    }
    when = ["time", "day"] if click_day is None else ["click_time AS time", f"{click_day} AS day"]
    columns = ", ".join(["user", "item", *when, *map(quote_identifier, own)])
    clicks = f"SELECT {columns} FROM impressions WHERE label = 1"
    reason = "source.clicks_as_behaviors" if behaviors else "source.behaviors is not declared"
    if behaviors:
        for name in own.keys() - _column_types(connection, "behaviors").keys():
            connection.execute(f"ALTER TABLE behaviors ADD COLUMN {quote_identifier(name)} {own[name]}")
    into = "INSERT INTO behaviors BY NAME" if behaviors else "CREATE TABLE behaviors AS"
    connection.execute(f"{into} {clicks}")
    (rows,) = fetch_aggregates(connection, f"SELECT count(*) FROM ({clicks})")
    if not rows and not behaviors:
        raise InputError(
            f"{impressions[0].display_name}: no impression is clicked, and source.behaviors is not declared, so there are no "
            "behaviours; declare behaviors, or check the label"
        )
    for name in own:
        connection.execute(f"ALTER TABLE impressions DROP COLUMN {quote_identifier(name)}")
    return {f"clicks that count as behaviors ({reason})": rows}


def _column_types(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {table}").fetchall()}


def _probability_column() -> RequiredColumn:
    number = f"TRY_CAST({TRUE_PROBABILITY} AS DOUBLE)"
    expected = "the click probability, a number from 0 to 1; rename the column if it means something else"
    return RequiredColumn(
        TRUE_PROBABILITY, TRUE_PROBABILITY, f"CASE WHEN {number} BETWEEN 0 AND 1 THEN {number} END", expected
    )


def _time_column(table: RawTable, event_format: EventFormat, checks: RowChecks) -> RequiredColumn:
    block = table.block
    assert isinstance(block, BehaviorFiles | ImpressionFiles)
    if is_ordered(block):
        position = f"({quote_identifier(POSITION)} + {table.first_position})"
        return RequiredColumn("time", POSITION, position, "a position")
    sql = time_sql(
        checks.connection, table, block.time, event_format.time_zone, event_format.ticks_per_second
    )
    expected = "a time"
    if block.time.format or block.time.unit:
        expected += (
            f" in the format {block.time.format}"
            if block.time.format
            else f" in {block.time.unit} since 1970"
        )
    suggest = partial(time_format, checks.connection, table.name, block.time.column)
    return RequiredColumn("time", block.time.column, sql, expected, suggest=suggest)


def _rating_column(table: RawTable, column: str, checks: RowChecks) -> RequiredColumn:
    def suggest() -> str:
        return notation_hint(example_without_number(checks.connection, table, column)[1], table.target)

    sql = number_sql(table, column)
    return RequiredColumn(
        "rating", column, f"CASE WHEN isfinite({sql}) THEN {sql} END", "a number", suggest=suggest
    )


def _label_column(table: RawTable, block: ImpressionFiles, checks: RowChecks) -> RequiredColumn:
    sql = _label_sql(quote_identifier(table.label_column), block.label)
    if block.label.separator is None:
        expected = "0 or 1 (or list the values that count as a click under label.positive)"
        if block.label.at_least is not None:
            expected = "a number, to compare with label.at_least"
        suggest = partial(label_values, checks.connection, table.name, table.label_column)
        return RequiredColumn("label", table.label_column, sql, expected, suggest=suggest)
    separator = block.label.separator
    (column,) = table.item_columns
    raw = f"concat_ws({quote_literal(separator)}, {quote_identifier(column)}, {quote_identifier(LABEL_IN_LIST)})"
    expected = (
        f"items with a label of 0 or 1, as in N55689{separator}1 (or list the values that count as a click under label.positive); a "
        "file without labels has no impressions to learn from"
    )
    suggest = partial(label_separator, checks.connection, table.name, column)
    return RequiredColumn(
        "label", column, sql, expected, raw=raw, suggest=suggest, key="sequence and its label"
    )


def _label_sql(column: str, label: LabelColumn) -> str:
    """Return SQL of the label, 0 or 1; NULL if the value is neither."""
    text = f"CAST({column} AS VARCHAR)"
    if label.at_least is not None:
        return f"CAST(TRY_CAST({text} AS DOUBLE) >= {label.at_least} AS TINYINT)"
    if label.positive is not None:
        positive = ", ".join(quote_literal(value) for value in database_strings(label.positive))
        has_label = f"{text} IS NOT NULL" if label.separator else "true"
        return f"CASE WHEN {has_label} THEN CAST(coalesce({text} IN ({positive}), false) AS TINYINT) END"
    return (
        f"CAST(CASE WHEN lower({text}) IN ('1', '1.0', 'true') THEN 1 "
        f"WHEN lower({text}) IN ('0', '0.0', 'false') THEN 0 END AS TINYINT)"
    )
