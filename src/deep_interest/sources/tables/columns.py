"""Raw tables of declared blocks, their columns, and ids as SQL expressions."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.declaration import (
    BehaviorFiles,
    ImpressionFiles,
    ItemFiles,
    TableFiles,
)
from deep_interest.sources.tables.scan import fetch_first_row

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
STEPS_BEFORE_LAST = "steps before the last"  # column: distance of a sequence element from the last element
_SEQUENCE_IDS = '"ids of the sequence"'


@dataclass
class RawTable:
    """Files of one block, loaded into one database table.

    Attributes:
        name: name of the database table.
        target: canonical table that it contributes to.
        block: declaration of the block.
        display_name: name of the files for messages.
        available_columns: columns of the files.
        feature_columns: ``{feature: column}`` of the requested features that the files have.
        column_types: ``{column: DuckDB type}``, set once the table is loaded.
        from_sequences: whether each row is an element of a sequence.
    """

    name: str
    target: str
    block: TableFiles
    display_name: str
    available_columns: list[str]
    feature_columns: dict[str, str]
    column_types: dict[str, str]
    from_sequences: bool = False

    @classmethod
    def resolve(
        cls,
        name: str,
        target: str,
        block: TableFiles,
        display_name: str,
        available_columns: list[str],
        features: Sequence[str],
    ) -> "RawTable":
        """Resolve the columns that ``block`` declares.

        Raises:
            InputError: a declared column does not exist.
        """
        mapping = {feature: block.columns.get(feature, feature) for feature in features}
        feature_columns = {
            feature: column
            for feature, column in mapping.items()
            if column in available_columns or feature in block.columns
        }
        table = cls(name, target, block, display_name, available_columns, feature_columns, {})
        for role, column in table._columns_by_role():
            if column not in available_columns:
                similar = difflib.get_close_matches(column, available_columns, n=1, cutoff=0.7)
                hint = f"; did you mean {similar[0]}?" if similar else ""
                raise InputError(
                    f"{display_name}: column {column} (source.{target}.{role}) not found; the columns are "
                    f"{', '.join(available_columns)}{hint}"
                )
        return table

    @cached_property
    def item_columns(self) -> tuple[str, ...]:
        """Columns of the item id."""
        if isinstance(self.block, BehaviorFiles):
            return (self.block.sequence,) if self.block.sequence else self.block.item_columns
        return self.block.item if isinstance(self.block, ItemFiles | ImpressionFiles) else ()

    @property
    def columns_to_read(self) -> list[str]:
        """Distinct columns that the block uses."""
        return list(dict.fromkeys(column for _, column in self._columns_by_role()))

    def explode_sequences(self, connection: duckdb.DuckDBPyConnection, sequence: str, separator: str) -> None:
        """Replace each row by one row per element of its sequence; the column then contains a single id."""
        column, steps = quote_identifier(sequence), quote_identifier(STEPS_BEFORE_LAST)
        connection.execute(
            f"""CREATE TEMP TABLE {self.name}_rows AS
            SELECT * EXCLUDE ({_SEQUENCE_IDS}) REPLACE (unnest({_SEQUENCE_IDS}) AS {column}),
                   len({_SEQUENCE_IDS}) - unnest(range(1, len({_SEQUENCE_IDS}) + 1)) AS {steps}
            FROM (SELECT *, list_filter(string_split(CAST({column} AS VARCHAR), $separator), lambda id: id <> '')
                         AS {_SEQUENCE_IDS}
                  FROM {self.name})""",
            {"separator": separator},
        )
        connection.execute(f"DROP TABLE {self.name}; ALTER TABLE {self.name}_rows RENAME TO {self.name}")
        self.from_sequences = True

    def load_column_types(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set ``column_types`` from the database."""
        self.column_types = {row[0]: row[1] for row in connection.execute(f"DESCRIBE {self.name}").fetchall()}

    def _columns_by_role(self) -> list[tuple[str, str]]:
        block = self.block
        columns = [("user", block.user)] if hasattr(block, "user") else []
        columns += [
            ("sequence" if getattr(block, "sequence", None) else "item", column)
            for column in self.item_columns
        ]
        if isinstance(block, BehaviorFiles | ImpressionFiles):
            columns.append(("time", block.time.column))
            columns += [("day", block.day)] if block.day else []
        if isinstance(block, ImpressionFiles):
            columns.append(("label", block.label.column))
        columns += [("where", column) for column in block.where]
        columns += [(f"columns.{feature}", column) for feature, column in block.columns.items()]
        return columns + [("features", column) for column in self.feature_columns.values()]


@dataclass(frozen=True)
class RequiredColumn:
    """Canonical column that needs a valid value in every row.

    Attributes:
        name: name of the canonical column.
        column: column of the file.
        sql: SQL expression of the canonical value; NULL if the row has no valid value.
        expected: description of a valid value, for messages.
        columns: columns of the file, if the value is made of several.
    """

    name: str
    column: str
    sql: str
    expected: str
    columns: tuple[str, ...] = ()

    @property
    def raw_sql(self) -> str:
        """SQL expression of the value as written in the file."""
        return " || '|' || ".join(
            f"CAST({quote_identifier(column)} AS VARCHAR)" for column in self.columns or (self.column,)
        )

    @property
    def display_name(self) -> str:
        """Names of the file's columns for messages."""
        return " + ".join(self.columns) or self.column


@dataclass(frozen=True)
class IdType:
    """Type of the user or item ids across all tables.

    Attributes:
        is_integer: True if every table writes plain integers; otherwise ids are strings.
    """

    is_integer: bool

    @classmethod
    def infer(
        cls, connection: duckdb.DuckDBPyConnection, id_columns: Sequence[tuple[RawTable, tuple[str, ...]]]
    ) -> "IdType":
        """Infer the type from the id columns of all raw tables."""
        return cls(
            all(
                len(columns) == 1 and _has_plain_integers(connection, table, columns[0])
                for table, columns in id_columns
            )
        )

    def required_column(self, name: str, table: RawTable, columns: tuple[str, ...]) -> RequiredColumn:
        """Return the id as a required column called ``name``."""
        strings = [_id_string(table, column) for column in columns]
        sql = f"TRY_CAST({strings[0]} AS BIGINT)" if self.is_integer else " || '|' || ".join(strings)
        if self.is_integer and table.column_types[columns[0]] in INTEGERS:
            sql = f"CAST({quote_identifier(columns[0])} AS BIGINT)"
        return RequiredColumn(name, columns[0], sql, "an id (an integer or a string)", columns=columns)


def _has_plain_integers(connection: duckdb.DuckDBPyConnection, table: RawTable, column: str) -> bool:
    if table.column_types[column] in INTEGERS:
        return True
    string = _id_string(table, column)
    counterexample = fetch_first_row(
        connection,
        f"SELECT 1 FROM (SELECT {string} AS id FROM {table.name}) WHERE id IS NOT NULL "
        "AND CAST(TRY_CAST(id AS BIGINT) AS VARCHAR) IS DISTINCT FROM id LIMIT 1",
    )
    return counterexample is None


def _id_string(table: RawTable, column: str) -> str:
    """Return SQL of an id as a string; integral floats become integers (pandas stores integers with gaps as floats)."""
    name = quote_identifier(column)
    if table.column_types[column] in ("FLOAT", "DOUBLE"):
        return f"(CASE WHEN {name} = floor({name}) THEN CAST(TRY_CAST({name} AS BIGINT) AS VARCHAR) END)"
    return f"nullif(CAST({name} AS VARCHAR), '')"
