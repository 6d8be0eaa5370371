"""What is wrong with the rows of declared tables: one error, or a count of the rows that are left out."""

from collections.abc import Sequence

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quoted
from deep_interest.sources.tables.columns import Checked, Part
from deep_interest.sources.tables.scan import SOURCE_FILE, first_row


class Checks:
    """The checks of one reading, and what they have left out.

    Args:
        connection: the database that has the parts.
        skip: rows without a proper value are left out and counted; otherwise the first one stops the reading.

    Attributes:
        left_out: ``{reason: rows}``.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, skip: bool) -> None:
        self.connection, self.skip = connection, skip
        self.left_out: dict[str, int] = {}

    def require(self, part: Part, checked: Sequence[Checked]) -> str:
        """Check columns that every row must have.

        Returns:
            SQL that is true of the rows that have them all.

        Raises:
            InputError: a row has not, and such rows are not skipped.
        """
        for column in checked:
            rows, value, file = first_row(
                self.connection,
                f"SELECT count(*), first({column.raw}), first({quoted(SOURCE_FILE)}) FROM {part.name} WHERE {column.value} IS NULL",
            )
            if not rows or self.skip:
                continue
            found = f"{rows:,} rows have no value" if value is None else f"{rows:,} values such as {value!r}"
            raise InputError(
                f"{file}, column {column.shown} ({part.table}.{column.name}): found {found}, expected {column.expected}. Mend the "
                "file, or set reading.on_bad_line to 'skip': such rows are then left out and counted."
            )
        all_there = " AND ".join(f"({column.value}) IS NOT NULL" for column in checked)
        if self.skip:
            lost = first_row(self.connection, f"SELECT count(*) FROM {part.name} WHERE NOT ({all_there})")[0]
            self.count(f"{part.table} without a proper {', '.join(column.name for column in checked)}", lost)
        return all_there

    def count(self, reason: str, rows: int) -> None:
        """Note that so many rows are left out."""
        if rows:
            self.left_out[reason] = self.left_out.get(reason, 0) + rows

    def rows(self, table: str) -> int:
        """The number of rows of a table."""
        return first_row(self.connection, f"SELECT count(*) FROM {table}")[0]
