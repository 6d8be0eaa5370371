"""Build the SQL of canonical behaviours and impressions."""

from collections.abc import Sequence
from dataclasses import dataclass

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import TRUE_PROBABILITY
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.columns import IdType, RawTable, RequiredColumn
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles, LabelColumn, Scalar
from deep_interest.sources.tables.features import select_features
from deep_interest.sources.tables.times import TIME_FEATURES, date_column_sql, local_time_sql, time_sql


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
        InputError: a row has no valid id, time, label or day.
    """
    block = table.block
    assert isinstance(block, BehaviorFiles | ImpressionFiles)
    ticks, zone = event_format.ticks_per_second, event_format.time_zone
    time = RequiredColumn(
        "time",
        block.time.column,
        time_sql(checks.connection, table, block.time, zone, ticks),
        f"a time in the format {block.time.format}" if block.time.format else "a time",
    )
    required = [
        event_format.user_ids.required_column("user", table, (block.user,)),
        event_format.item_ids.required_column("item", table, table.item_columns),
        time,
    ]
    if isinstance(block, ImpressionFiles):
        expected = "0 or 1 (or list the values that count as a click under label.positive)"
        required.append(RequiredColumn("label", block.label.column, _label_sql(block.label), expected))
    if block.day:
        sql = date_column_sql(table, block.day)
        required.append(RequiredColumn("day", block.day, sql, "a date such as 2022-04-25 or 20220425"))
    is_valid = checks.require_values(table, required)
    selected = [f"{column.sql} AS {column.name}" for column in required]
    if not block.day:
        selected.append(f"{local_time_sql('day', time.sql, ticks, zone)} AS day")
    if isinstance(block, ImpressionFiles):
        selected += select_features(checks.connection, table, tables, features)
        selected += [
            f"{local_time_sql(name, time.sql, ticks, zone)} AS {quote_identifier(name)}"
            for name in features.context
            if name in TIME_FEATURES and name not in table.feature_columns
        ]
        if TRUE_PROBABILITY in table.column_types:
            selected.append(f"CAST({TRUE_PROBABILITY} AS DOUBLE) AS {TRUE_PROBABILITY}")
    return f"SELECT {', '.join(selected)} FROM {table.name} WHERE {is_valid}"


def database_strings(values: Sequence[Scalar] | None) -> list[str]:
    """Return values of the configuration as DuckDB writes them when cast to VARCHAR."""
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values or ()]


def _label_sql(label: LabelColumn) -> str:
    """Return SQL of the label, 0 or 1; NULL if the value is neither."""
    text = f"CAST({quote_identifier(label.column)} AS VARCHAR)"
    if label.positive is not None:
        positive = ", ".join(quote_literal(value) for value in database_strings(label.positive))
        return f"CAST(coalesce({text} IN ({positive}), false) AS TINYINT)"
    return (
        f"CAST(CASE WHEN lower({text}) IN ('1', '1.0', 'true') THEN 1 "
        f"WHEN lower({text}) IN ('0', '0.0', 'false') THEN 0 END AS TINYINT)"
    )
