"""Check the rows of declared tables: raise an error for invalid rows, or skip and count them."""

from collections.abc import Sequence

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.column_declarations import database_strings
from deep_interest.sources.tables.columns import RawTable, RequiredColumn
from deep_interest.sources.tables.scan import SOURCE_FILE, fetch_aggregates


class RowChecks:
    """Checks rows and counts the rows that are skipped.

    Args:
        connection: database with the raw tables.
        skip: whether to skip and count invalid rows; otherwise the first invalid row raises an error.

    Attributes:
        skipped_rows: ``{reason: number of rows}``.
        notes: ``{what may be wrong: number of rows}``.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, skip: bool) -> None:
        self.connection, self.skip = connection, skip
        self.skipped_rows: dict[str, int] = {}
        self.notes: dict[str, int] = {}

    def require_values(self, table: RawTable, columns: Sequence[RequiredColumn]) -> str:
        """Check that every row has a valid value in each of ``columns``.

        Returns:
            SQL condition that is true for valid rows.

        Raises:
            InputError: a row is invalid and invalid rows are not skipped.
        """
        for column in columns:
            rows, value, file = fetch_aggregates(
                self.connection,
                f"SELECT count(*), first({column.raw_sql}), first({quote_identifier(SOURCE_FILE)}) "
                f"FROM {table.name} WHERE {column.sql} IS NULL",
            )
            if not rows or self.skip:
                continue
            problem = f"{rows:,} row(s) without a value"
            if value is not None:
                problem = f"{rows:,} invalid value(s), for example {value!r}"
            advice = "Fix the file, or set reading.on_bad_line to 'skip' to skip and count such rows."
            if rows == self.count_rows(table.name):
                advice = f"No row is valid: check source.{table.target}.{column.key or column.name}."
            raise InputError(
                f"{file}, column {column.display_name} ({table.target}.{column.name}): found {problem}; expected "
                f"{column.expected}. {column.suggest() or advice}"
            )
        is_valid = " AND ".join(f"({column.sql}) IS NOT NULL" for column in columns)
        if self.skip:
            invalid = fetch_aggregates(
                self.connection, f"SELECT count(*) FROM {table.name} WHERE NOT ({is_valid})"
            )
            names = ", ".join(column.name for column in columns)
            self.count_skipped(f"{table.target} without a valid {names}", invalid[0])
        return is_valid

    def count_skipped(self, reason: str, rows: int) -> None:
        """Add ``rows`` to the skipped rows of this reason."""
        if rows:
            self.skipped_rows[reason] = self.skipped_rows.get(reason, 0) + rows

    def count_rows(self, relation: str) -> int:
        """Return the number of rows of a table or join."""
        return fetch_aggregates(self.connection, f"SELECT count(*) FROM {relation}")[0]


def keep_declared_rows(checks: RowChecks, table: RawTable) -> None:
    """Keep the rows that match ``where``, and count the others.

    Raises:
        InputError: no row has a value of ``where``; the message lists the column's values.
    """
    connection = checks.connection
    for name, declared_values in table.block.where.items():
        column, values = quote_identifier(name), database_strings(declared_values)
        rows_before = checks.count_rows(table.name)
        column_values = connection.execute(
            f"SELECT CAST({column} AS VARCHAR) v, count(*) FROM {table.name} GROUP BY v ORDER BY 2 DESC, 1 LIMIT 8"
        ).fetchall()
        matches = f"CAST({column} AS VARCHAR) IN (SELECT unnest($values))"
        connection.execute(
            f"DELETE FROM {table.name} WHERE NOT coalesce({matches}, false)", {"values": values}
        )
        rows = checks.count_rows(table.name)
        if rows_before and not rows:
            raise InputError(
                f"{table.display_name}, column {name}: no row has a value of where ({', '.join(values)}); the "
                f"column's values are {', '.join(str(value) for value, _ in column_values)}"
            )
        reason = f"rows of {table.target} whose {name} is not {' or '.join(values)}"
        checks.count_skipped(reason, rows_before - rows)
