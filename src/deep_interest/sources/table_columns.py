"""The columns of declared tables as SQL: ids, times, days, labels and features, each checked for what it must be."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.declaration import (
    BehaviorFiles,
    ImpressionFiles,
    ItemFiles,
    LabelColumn,
    TableFiles,
    TimeColumn,
)
from deep_interest.sources.table_files import DATE_FORMATS, first_row, quoted

TIME_FEATURES = ("hour", "weekday")
_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}  # in a second
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_NUMBERS = _INTEGERS | {"UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE"}
_LATEST = 7_258_118_400  # seconds: the year 2200
_OFFSET = r":\d{2}(\.\d+)? ?(Z|z|[+-]\d{2}(:?\d{2})?)$"
_BACK = "steps before the last"


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
                near = difflib.get_close_matches(column, available, n=1)
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
        column, back = quoted(sequence), quoted(_BACK)
        connection.execute(
            f"""CREATE TEMP TABLE {self.name}_rows AS
            SELECT * EXCLUDE (ids) REPLACE (unnest(ids) AS {column}), len(ids) - unnest(range(1, len(ids) + 1)) AS {back}
            FROM (SELECT *, list_filter(string_split(CAST({column} AS VARCHAR), $separator), lambda id: id <> '') AS ids
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
        if self.integers and part.types[columns[0]] in _INTEGERS:
            value = f"CAST({quoted(columns[0])} AS BIGINT)"
        return Checked(name, columns[0], value, "an id (a whole number or a text)", columns=columns)


def _plain_integers(connection: duckdb.DuckDBPyConnection, part: Part, column: str) -> bool:
    if part.types[column] in _INTEGERS:
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
    return f"({value} - {quoted(_BACK)})" if part.exploded else value


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
    if type_ in _INTEGERS:
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
    local = f"timezone('{zone}', {{}})"
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return column
    if type_.startswith("TIMESTAMP") or type_ == "DATE":
        return local.format(f"CAST({column} AS TIMESTAMP)")
    text = f"CAST({column} AS VARCHAR)"
    if time.format:
        pattern = "'" + time.format.replace("'", "''") + "'"
        parsed = f"try_strptime({text}, {pattern})"
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
    local = f"timezone('{zone}', make_timestamptz({time} * {1_000_000 // unit}))"
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


def label_value(part: Part, label: LabelColumn) -> str:
    """SQL of the label, 0 or 1; NULL where it is neither."""
    text = f"CAST({quoted(label.column)} AS VARCHAR)"
    if label.positive is not None:
        texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in label.positive]
        listed = ", ".join("'" + value.replace("'", "''") + "'" for value in texts)
        return f"CAST(coalesce({text} IN ({listed}), false) AS TINYINT)"
    return f"CAST(CASE WHEN lower({text}) IN ('1', '1.0', 'true') THEN 1 WHEN lower({text}) IN ('0', '0.0', 'false') THEN 0 END AS TINYINT)"


def feature_value(part: Part, feature: str, *, number: bool, as_text: bool) -> str:
    """SQL of a feature's value: a number for buckets, else integers, truth values and texts as they are, the rest as text."""
    column, type_ = quoted(part.features[feature]), part.types[part.features[feature]]
    if number:
        value = f"TRY_CAST({column} AS DOUBLE)"
        return f"CASE WHEN NOT isnan({value}) THEN {value} END"
    if type_ in _INTEGERS or type_ in ("BOOLEAN", "VARCHAR"):
        return f"CAST({column} AS VARCHAR)" if as_text else column
    if type_ in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN NOT isnan({column}) THEN CAST({column} AS VARCHAR) END"
    return f"CAST({column} AS VARCHAR)"
