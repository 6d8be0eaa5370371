"""Raw tables of declared blocks, their columns, and ids as SQL expressions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.decision_declaration import RequestFiles
from deep_interest.sources.tables.declaration import (
    BehaviorFiles,
    ImpressionFiles,
    ItemFiles,
    TableFiles,
    UserFiles,
)
from deep_interest.sources.tables.exposure_declaration import ExposureFiles, PrePeriodFiles
from deep_interest.sources.tables.hints import missing_column
from deep_interest.sources.tables.scan import fetch_first_row

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
STEPS_BEFORE_LAST = (
    "steps before the last"  # column: units of time from an element of a list to the time of its row
)
POSITION = "position in the files"  # column: number of earlier rows, of behaviours without times or of lists of impressions
RATING = "rating"  # column of canonical behaviours, and a feature of them
LABEL_IN_LIST = "label in the list"  # column: label of an item of a list
SEGMENT = "segment of the history"  # column: segment of the log that has the row's history; 0 for none
HISTORY_LENGTH = "length of the history"  # column: number of behaviours in the row's history


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
        from_sequences: whether each row is a behaviour of a list, which has one time for all.
        first_position: number of rows of the earlier blocks.
    """

    name: str
    target: str
    block: TableFiles
    display_name: str
    available_columns: list[str]
    feature_columns: dict[str, str]
    column_types: dict[str, str]
    from_sequences: bool = False
    first_position: int = 0

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
        if isinstance(block, BehaviorFiles) and block.rating and RATING in mapping:
            mapping[RATING] = block.rating
        feature_columns = {
            feature: column
            for feature, column in mapping.items()
            if column in available_columns
            or feature in block.columns
            or column == getattr(block, "rating", None)
        }
        table = cls(name, target, block, display_name, available_columns, feature_columns, {})
        for role, column in table._columns_by_role():
            if column not in available_columns:
                hint = missing_column(role, column, block, available_columns, table.columns_to_read)
                raise InputError(
                    f"{display_name}: column {column} (source.{target}.{role}) not found; the columns are "
                    f"{', '.join(available_columns)}{hint}"
                )
        return table

    @cached_property
    def item_columns(self) -> tuple[str, ...]:
        """Columns of the item id."""
        if isinstance(self.block, BehaviorFiles | ImpressionFiles) and self.block.list_column:
            return (self.block.list_column,)
        if isinstance(self.block, BehaviorFiles):
            return self.block.item_columns
        if isinstance(self.block, ItemFiles) and self.block.sequence:
            return self.block.sequence
        return self.block.item if isinstance(self.block, ItemFiles | ImpressionFiles) else ()

    @property
    def user_columns(self) -> tuple[str, ...]:
        """Columns of the user id."""
        block = self.block
        if isinstance(block, BehaviorFiles | UserFiles | ImpressionFiles | PrePeriodFiles):
            return block.user
        return ()

    @property
    def label_column(self) -> str:
        """Column of the label of an impression."""
        assert isinstance(self.block, ImpressionFiles)
        return self.block.label.column or LABEL_IN_LIST

    @property
    def columns_to_read(self) -> list[str]:
        """Distinct columns that the block uses."""
        return list(dict.fromkeys(column for _, column in self._columns_by_role()))

    def load_column_types(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set ``column_types`` from the database."""
        self.column_types = {row[0]: row[1] for row in connection.execute(f"DESCRIBE {self.name}").fetchall()}

    def _columns_by_role(self) -> list[tuple[str, str]]:
        block = self.block
        columns = [("user", column) for column in self.user_columns]
        role = "item"
        if isinstance(block, BehaviorFiles | ImpressionFiles) and block.list_column:
            role = "history" if isinstance(block, BehaviorFiles) and block.history else "sequence"
        if isinstance(block, ItemFiles) and block.sequence:
            role = "sequence"
        columns += [(role, column) for column in self.item_columns]
        if isinstance(block, BehaviorFiles | ImpressionFiles):
            columns += [] if getattr(block, "order", None) else [("time", block.time.column)]
            columns += [("day", block.day)] if block.day else []
        if isinstance(block, BehaviorFiles) and block.rating:
            columns.append(("rating", block.rating))
        if isinstance(block, ImpressionFiles):
            columns += _given_columns(block)
        if isinstance(block, PrePeriodFiles):
            columns += _exposure_columns(block)
        if isinstance(block, RequestFiles):
            columns += block.role_columns
        columns += [("where", column) for column in block.where]
        columns += [(f"columns.{feature}", column) for feature, column in block.columns.items()]
        return columns + [("features", column) for column in self.feature_columns.values()]


def _given_columns(block: ImpressionFiles) -> list[tuple[str, str]]:
    """Return the roles and names of the columns that only impressions have."""
    columns = [
        ("label", block.label.column),
        ("label.clicked", block.label.clicked),
        ("weight", block.weight),
        ("click_time", block.click_time and block.click_time.column),
        ("split", block.split and block.split.column),
    ]
    columns += [("request", column) for column in block.request or ()]
    if block.history:
        columns += [("history", column) for column in block.history.item]
        columns += [
            (f"history.columns.{feature}", column) for feature, column in block.history.columns.items()
        ]
    return [(role, column) for role, column in columns if column]


def _exposure_columns(block: PrePeriodFiles) -> list[tuple[str, str]]:
    """Return the roles and names of the columns that only the log of a test has."""
    columns = block.quantity_columns
    if isinstance(block, ExposureFiles):
        when = ("day", block.day) if block.day else ("time", block.time.column)
        columns = [("arm", block.arm), when, *columns]
    return columns


@dataclass(frozen=True)
class RequiredColumn:
    """Canonical column that needs a valid value in every row.

    Attributes:
        name: name of the canonical column.
        column: column of the file.
        sql: SQL expression of the canonical value; NULL if the row has no valid value.
        expected: description of a valid value, for messages.
        columns: columns of the file, if the value is made of several.
        raw: SQL expression of the value as written in the file, if it is not that of the columns.
        suggest: returns a sentence that says which declaration would fit, or an empty string.
        key: keys of the block that declare the column, if they are not ``name``.
    """

    name: str
    column: str
    sql: str
    expected: str
    columns: tuple[str, ...] = ()
    raw: str = ""
    suggest: Callable[[], str] = str
    key: str = ""

    @property
    def raw_sql(self) -> str:
        """SQL expression of the value as written in the file."""
        return self.raw or " || '|' || ".join(
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
        """Return the id as a required column called ``name``.

        Raises:
            InputError: the column has lists or structs.
        """
        for column in columns:
            type_ = table.column_types[column]
            if type_.endswith("]") or type_.startswith(("STRUCT", "MAP")):
                hint = "; set sequence or history instead of item" if name == "item" else ""
                raise InputError(
                    f"{table.display_name}, column {column} (source.{table.target}.{name}): found values of type "
                    f"{type_}, expected an id (an integer or a string){hint}"
                )
        strings = [_id_string(table, column) for column in columns]
        sql = f"TRY_CAST({strings[0]} AS BIGINT)" if self.is_integer else _joined(strings)
        if self.is_integer and table.column_types[columns[0]] in INTEGERS:
            sql = f"CAST({quote_identifier(columns[0])} AS BIGINT)"
        return RequiredColumn(name, columns[0], sql, "an id (an integer or a string)", columns=columns)


def _joined(strings: Sequence[str]) -> str:
    """Return SQL that joins the parts of an id by ``|``; within a part, ``|`` and ``\\`` are escaped, so that ids stay distinct."""
    if len(strings) == 1:
        return strings[0]
    return " || '|' || ".join(rf"replace(replace({part}, '\', '\\'), '|', '\|')" for part in strings)


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
