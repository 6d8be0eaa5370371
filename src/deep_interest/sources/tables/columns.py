"""The parts of declared tables, and their ids as SQL: integers or texts."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import quoted
from deep_interest.sources.tables.declaration import (
    BehaviorFiles,
    ImpressionFiles,
    ItemFiles,
    TableFiles,
)
from deep_interest.sources.tables.scan import first_row

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
BACK = "steps before the last"  # of a sequence's element, as a column
_IDS = '"ids of the sequence"'


@dataclass
class Part:
    """The files of one block, read into one table of the database.

    Attributes:
        name: of that table.
        table: the canonical table it is a part of.
        block: its declaration.
        shown: the files' name for messages.
        available: the files' columns.
        features: ``{feature: column}`` of the wanted features that it has.
        types: ``{column: DuckDB type}``, once it is read.
        exploded: it was read from sequences.
    """

    name: str
    table: str
    block: TableFiles
    shown: str
    available: list[str]
    features: dict[str, str]
    types: dict[str, str]
    exploded: bool = False

    @classmethod
    def of(
        cls, name: str, table: str, block: TableFiles, shown: str, available: list[str], wanted: Sequence[str]
    ) -> "Part":
        """Check that the columns which ``block`` names are there.

        Raises:
            InputError: one is not.
        """
        features = {feature: block.columns.get(feature, feature) for feature in wanted}
        features = {f: column for f, column in features.items() if column in available or f in block.columns}
        part = cls(name, table, block, shown, available, features, {})
        for role, column in part._named():
            if column not in available:
                near = difflib.get_close_matches(column, available, n=1, cutoff=0.7)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise InputError(
                    f"{shown}: column {column} (source.{table}.{role}) not found; the columns are {', '.join(available)}{hint}"
                )
        return part

    @cached_property
    def item_columns(self) -> tuple[str, ...]:
        """The columns of the item's id."""
        if isinstance(self.block, BehaviorFiles):
            return (self.block.sequence,) if self.block.sequence else self.block.items
        return self.block.item if isinstance(self.block, ItemFiles | ImpressionFiles) else ()

    @property
    def physical(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys(column for _, column in self._named()))

    def explode(self, connection: duckdb.DuckDBPyConnection, sequence: str, separator: str) -> None:
        """Make a row of each element of a sequence; the column then holds one id."""
        column, back = quoted(sequence), quoted(BACK)
        connection.execute(
            f"""CREATE TEMP TABLE {self.name}_rows AS
            SELECT * EXCLUDE ({_IDS}) REPLACE (unnest({_IDS}) AS {column}), len({_IDS}) - unnest(range(1, len({_IDS}) + 1)) AS {back}
            FROM (SELECT *, list_filter(string_split(CAST({column} AS VARCHAR), $separator), lambda id: id <> '') AS {_IDS}
                  FROM {self.name})""",
            {"separator": separator},
        )
        connection.execute(f"DROP TABLE {self.name}; ALTER TABLE {self.name}_rows RENAME TO {self.name}")
        self.exploded = True

    def describe(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Note the columns' types."""
        self.types = {row[0]: row[1] for row in connection.execute(f"DESCRIBE {self.name}").fetchall()}

    def _named(self) -> list[tuple[str, str]]:
        block = self.block
        named = [("user", block.user)] if hasattr(block, "user") else []
        named += [
            ("sequence" if getattr(block, "sequence", None) else "item", column)
            for column in self.item_columns
        ]
        if isinstance(block, BehaviorFiles | ImpressionFiles):
            named.append(("time", block.time.column))
            named += [("day", block.day)] if block.day else []
        if isinstance(block, ImpressionFiles):
            named.append(("label", block.label.column))
        named += [("where", column) for column in block.where]
        named += [(f"columns.{feature}", column) for feature, column in block.columns.items()]
        return named + [("features", column) for column in self.features.values()]


@dataclass(frozen=True)
class Checked:
    """A canonical column that every row must have.

    Attributes:
        name: the canonical column.
        column: the file's column or, for messages, columns.
        value: SQL that is NULL where the row has no proper value.
        expected: what a proper value is.
        columns: where it is made of several columns.
    """

    name: str
    column: str
    value: str
    expected: str
    columns: tuple[str, ...] = ()

    @property
    def raw(self) -> str:
        """SQL of the value as the file has it."""
        return " || '|' || ".join(
            f"CAST({quoted(column)} AS VARCHAR)" for column in self.columns or (self.column,)
        )

    @property
    def shown(self) -> str:
        return " + ".join(self.columns) or self.column

    def expecting(self, expected: str) -> "Checked":
        return replace(self, expected=expected)


@dataclass(frozen=True)
class Ids:
    """How users or items are named in all tables: by integers where every table writes plain integers, else by texts."""

    integers: bool

    @classmethod
    def of(
        cls, connection: duckdb.DuckDBPyConnection, columns: Sequence[tuple[Part, tuple[str, ...]]]
    ) -> "Ids":
        """Look through the id columns of all parts."""
        return cls(
            all(len(names) == 1 and _plain_integers(connection, part, names[0]) for part, names in columns)
        )

    def checked(self, name: str, part: Part, columns: tuple[str, ...]) -> Checked:
        """The id as a checked column."""
        texts = [_id_text(part, column) for column in columns]
        value = f"TRY_CAST({texts[0]} AS BIGINT)" if self.integers else " || '|' || ".join(texts)
        if self.integers and part.types[columns[0]] in INTEGERS:
            value = f"CAST({quoted(columns[0])} AS BIGINT)"
        return Checked(name, columns[0], value, "an id (a whole number or a text)", columns=columns)


def _plain_integers(connection: duckdb.DuckDBPyConnection, part: Part, column: str) -> bool:
    if part.types[column] in INTEGERS:
        return True
    text = _id_text(part, column)
    other = first_row(
        connection,
        f"SELECT 1 FROM (SELECT {text} AS id FROM {part.name}) WHERE id IS NOT NULL "
        "AND CAST(TRY_CAST(id AS BIGINT) AS VARCHAR) IS DISTINCT FROM id LIMIT 1",
    )
    return other is None


def _id_text(part: Part, column: str) -> str:
    """An id as text; a float that is a whole number is that number (pandas makes floats of integers with gaps)."""
    name = quoted(column)
    if part.types[column] in ("FLOAT", "DOUBLE"):
        return f"(CASE WHEN {name} = floor({name}) THEN CAST(TRY_CAST({name} AS BIGINT) AS VARCHAR) END)"
    return f"nullif(CAST({name} AS VARCHAR), '')"
