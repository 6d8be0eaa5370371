"""Read the log of an A/B test: sums of impressions, clicks and revenue by user, arm and day."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import duckdb
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.sources.database import connect, restrict_to_files
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks, keep_declared_rows
from deep_interest.sources.tables.column_declarations import database_strings
from deep_interest.sources.tables.columns import IdType, RawTable, RequiredColumn
from deep_interest.sources.tables.decimals import example_without_number, notation_hint, number_sql
from deep_interest.sources.tables.encodings import convert_to_utf8, name_originals
from deep_interest.sources.tables.exposure_declaration import ExposureFiles, ExposureSource, PrePeriodFiles
from deep_interest.sources.tables.files import ResolvedFiles, check_unchanged, resolve_files
from deep_interest.sources.tables.hints import time_format
from deep_interest.sources.tables.reader import OnBadLine
from deep_interest.sources.tables.scan import common_columns, load_files
from deep_interest.sources.tables.times import (
    date_column_sql,
    local_time_sql,
    ticks_of_column,
    time_sql,
)

_QUANTITIES = ("impressions", "clicks", "revenue")
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Exposures:
    """Log of a test.

    Attributes:
        user_days: columns ``user``, ``arm``, ``day`` (days since 1970-01-01), ``impressions``, ``clicks``, ``revenue``; one row for each
            user, arm and day.
        pre_period: columns ``user``, ``impressions``, ``clicks``, ``revenue``; one row for each user who was there before the test.
        left_out: ``{reason: number of rows}`` that were skipped.
    """

    user_days: pd.DataFrame
    pre_period: pd.DataFrame
    left_out: dict[str, int]


def read_exposures(
    folder: Path,
    source: ExposureSource,
    *,
    arms: Sequence[str],
    start: date | None = None,
    on_bad_line: OnBadLine = "error",
) -> Exposures:
    """Read the log that ``source`` declares, and add it up by user, arm and day.

    Args:
        folder: folder that relative file names refer to.
        source: declaration of files and columns.
        arms: names of the arms; a row of the test with another one is invalid.
        start: first day of the test; earlier rows are the pre-period, and their arm is not read. None if all rows are of the test.
        on_bad_line: ``error`` to raise at the first invalid row, ``skip`` to skip and count such rows.

    Raises:
        InputError: a file is missing, damaged or changes during reading, a column is missing, a row has no valid user, arm or time, more
            clicks than impressions or a negative revenue, or no row is of the test.
    """
    with tempfile.TemporaryDirectory() as copies, connect() as connection:
        return _Reader(connection, folder, Path(copies), source, on_bad_line).read(arms, start)


class _Reader:
    """Reads one log.

    Args:
        connection: database of the raw tables.
        folder, source, on_bad_line: see `read_exposures`.
        copies: folder for files in UTF-8 of those in other encodings.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        folder: Path,
        copies: Path,
        source: ExposureSource,
        on_bad_line: OnBadLine,
    ) -> None:
        self.connection, self.source = connection, source
        self.checks = RowChecks(connection, skip=on_bad_line == "skip")
        blocks: dict[str, PrePeriodFiles] = {"exposures": source.exposures}
        if source.pre_period is not None:
            blocks["pre_period"] = source.pre_period
        resolved = {}
        for target, block in blocks.items():
            found = resolve_files(folder, block)
            if found is not None:  # an optional table may be missing
                resolved[target] = convert_to_utf8(found, block, copies / target)
        restrict_to_files(connection, [file for each in resolved.values() for file in each.files])
        self.tables = {
            target: self._load(target, blocks[target], files) for target, files in resolved.items()
        }
        for files in resolved.values():
            check_unchanged(files)

    def read(self, arms: Sequence[str], start: date | None) -> Exposures:
        """Return the log."""
        ids = IdType.infer(self.connection, [(table, table.user_columns) for table in self.tables.values()])
        if "exposures" not in self.tables:
            raise InputError(
                f"source.exposures.files: none of {', '.join(self.source.exposures.files)} exists; a test needs its log, remove optional"
            )
        selects = [self._select(table, ids, arms, start) for table in self.tables.values()]
        self.connection.execute(f"CREATE TABLE rows AS {' UNION ALL BY NAME '.join(selects)}")
        sums = ", ".join(f"sum({name}) AS {name}" for name in _QUANTITIES)
        user_days = self.connection.sql(
            f'SELECT "user", arm, day, {sums} FROM rows WHERE arm <> \'\' GROUP BY ALL ORDER BY day, "user", arm'
        ).df()
        before = self.connection.sql(
            f'SELECT "user", {sums} FROM rows WHERE arm = \'\' GROUP BY ALL ORDER BY "user"'
        ).df()
        if user_days.empty:
            since = f" on or after start ({start})" if start else ""
            raise InputError(f"{self.tables['exposures'].display_name}: no row is of the test{since}")
        return Exposures(user_days, before, self.checks.skipped_rows)

    def _load(self, target: str, block: PrePeriodFiles, files: ResolvedFiles) -> RawTable:
        with name_originals(files):
            available = common_columns(files, block, skip_bad=self.checks.skip)
        table = RawTable.resolve(f"raw_{target}", target, block, files.display_name, available, ())
        with name_originals(files):
            skipped = load_files(
                self.connection, table.name, files, block, table.columns_to_read, skip_bad=self.checks.skip
            )
        for reason, rows in skipped.items():
            self.checks.count_skipped(f"{reason} of {target}", rows)
        keep_declared_rows(self.checks, table)
        table.load_column_types(self.connection)
        return table

    def _select(self, table: RawTable, ids: IdType, arms: Sequence[str], start: date | None) -> str:
        """Return the SELECT statement of the canonical rows of a table."""
        required = [ids.required_column("user", table, table.user_columns)]
        arm, day = "''", "CAST(NULL AS INTEGER)"
        if isinstance(table.block, ExposureFiles):
            when = self._day(table, table.block)
            column = _arm(table.block.arm, arms, when.sql, start)
            required += [when, column]
            arm, day = column.sql, when.sql
        quantities = self._quantities(table)
        required += quantities.values()
        is_valid = self.checks.require_values(table, required)
        absent = {"impressions": "1", "revenue": "0"}
        sums = ", ".join(
            f"CAST({quantities[name].sql if name in quantities else absent[name]} AS DOUBLE) AS {name}"
            for name in _QUANTITIES
        )
        return f'SELECT {required[0].sql} AS "user", {arm} AS arm, {day} AS day, {sums} FROM {table.name} WHERE {is_valid}'

    def _day(self, table: RawTable, block: ExposureFiles) -> RequiredColumn:
        if block.day:
            sql = date_column_sql(table, block.day)
            return RequiredColumn("day", block.day, sql, "a date such as 2022-04-25 or 20220425")
        zone = self.source.time_zone
        ticks = ticks_of_column(self.connection, table, block.time)
        time = time_sql(self.connection, table, block.time, zone, ticks)
        suggest = partial(time_format, self.connection, table.name, block.time.column)
        return RequiredColumn(
            "time", block.time.column, local_time_sql("day", time, ticks, zone), "a time", suggest=suggest
        )

    def _quantities(self, table: RawTable) -> dict[str, RequiredColumn]:
        """Return the columns of impressions, clicks and revenue; invalid rows have NULL."""
        block = table.block
        assert isinstance(block, PrePeriodFiles)
        columns = {}
        if block.impressions:
            sql = self._number(table, block.impressions)
            columns["impressions"] = self._column(
                "impressions", table, block.impressions, sql, "a number of at least 0"
            )
        clicks, most = self._clicks(table, block), columns["impressions"].sql if columns else "1"
        expected = "a number from 0 to the impressions of the row"
        if not block.impressions:
            expected = (
                "0 or 1, because each row is an impression (set impressions if rows are sums, and clicks: {column: …, positive: …} if "
                "clicks are words)"
            )
        columns["clicks"] = self._column(
            "clicks", table, block.clicks.column, f"CASE WHEN {clicks} <= {most} THEN {clicks} END", expected
        )
        if block.revenue:
            name = quote_identifier(block.revenue)
            sql = f"CASE WHEN {name} IS NULL THEN 0 ELSE {self._number(table, block.revenue)} END"
            columns["revenue"] = self._column("revenue", table, block.revenue, sql, "a number of at least 0")
        return columns

    def _column(self, name: str, table: RawTable, column: str, sql: str, expected: str) -> RequiredColumn:
        def suggest() -> str:
            return notation_hint(example_without_number(self.connection, table, column)[1], table.target)

        return RequiredColumn(name, column, sql, expected, suggest=suggest)

    @staticmethod
    def _number(table: RawTable, column: str) -> str:
        """Return SQL of a number of at least 0; NULL for anything else."""
        number = number_sql(table, column)
        return f"(CASE WHEN isfinite({number}) AND {number} >= 0 THEN {number} END)"

    def _clicks(self, table: RawTable, block: PrePeriodFiles) -> str:
        column = quote_identifier(block.clicks.column)
        text = f"CAST({column} AS VARCHAR)"
        if block.clicks.positive is not None:
            positive = ", ".join(quote_literal(value) for value in database_strings(block.clicks.positive))
            return f"CAST(coalesce({text} IN ({positive}), false) AS INTEGER)"
        return (
            f"(CASE WHEN lower({text}) = 'true' THEN 1 WHEN lower({text}) = 'false' THEN 0 "
            f"ELSE {self._number(table, block.clicks.column)} END)"
        )


def _arm(column: str, arms: Sequence[str], day: str, start: date | None) -> RequiredColumn:
    """Return the arm of a row, empty before the test."""
    text, names = f"CAST({quote_identifier(column)} AS VARCHAR)", ", ".join(map(quote_literal, arms))
    sql = f"CASE WHEN {text} IN ({names}) THEN {text} END"
    if start is not None:
        sql = f"CASE WHEN {day} < {(start - _EPOCH).days} THEN '' ELSE {sql} END"
    return RequiredColumn("arm", column, sql, f"one of the arms of split: {', '.join(arms)}")
