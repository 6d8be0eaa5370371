"""The time of the click of an impression: present exactly where it was clicked, and not before the impression."""

from collections.abc import Sequence

import duckdb

from deep_interest.logs.tables import NEVER
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.columns import RawTable, RequiredColumn
from deep_interest.sources.tables.declaration import ImpressionFiles
from deep_interest.sources.tables.times import time_sql


def click_time_column(
    connection: duckdb.DuckDBPyConnection, table: RawTable, time_zone: str, ticks: int, columns: Sequence[RequiredColumn]
) -> RequiredColumn:  # fmt: skip
    """Return the time of the click as a required column; `NEVER` without a click.

    Args:
        connection: database with the raw tables.
        table: raw table of impressions with ``click_time``.
        time_zone: zone of strings without a UTC offset.
        ticks: ticks per second of times.
        columns: required columns, with ``time`` and ``label``.
    """
    block = table.block
    assert isinstance(block, ImpressionFiles)
    assert block.click_time is not None
    by_name = {column.name: column for column in columns}
    time, label = by_name["time"], by_name["label"]
    name = quote_identifier(block.click_time.column)
    clicked = time_sql(connection, table, block.click_time, time_zone, ticks)
    is_empty = f"({name} IS NULL OR CAST({name} AS VARCHAR) = '')"
    sql = (
        f"(CASE WHEN {label.sql} = 1 AND {clicked} >= {time.sql} THEN {clicked} "
        f"WHEN {label.sql} = 0 AND {is_empty} THEN {NEVER} END)"
    )
    raw = (
        f"concat('label ', CAST({label.sql} AS VARCHAR), ', time ', {time.raw_sql}, ', {block.click_time.column} ', "
        f"CASE WHEN {is_empty} THEN 'no value' ELSE CAST({name} AS VARCHAR) END)"
    )
    expected = "the time of the click where the label is 1, not before the time of the impression, and no value where it is 0"
    return RequiredColumn("click_time", block.click_time.column, sql, expected, raw=raw)
