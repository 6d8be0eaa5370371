"""Tables of any layout to canonical tables, as a dataset's block declares them; DuckDB does the reading."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import duckdb
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.encoding import GOODS, USER_ID, FeatureColumns
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.sources.declaration import BehaviorFiles, EntityFiles, ImpressionFiles, Source, TableFiles
from deep_interest.sources.table_columns import (
    TIME_FEATURES,
    Checked,
    Ids,
    Part,
    day_of,
    feature_value,
    label_value,
    local_time,
    time_unit,
    time_value,
)
from deep_interest.sources.table_files import (
    SOURCE_FILE,
    FoundFiles,
    check_unchanged,
    columns_of,
    find_files,
    first_row,
    load,
    quoted,
)

OnBadLine = Literal["error", "skip"]
_log = logging.getLogger(__name__)


def read_own_tables(
    folder: Path, source: Source, features: FeatureColumns, *, on_bad_line: OnBadLine = "error"
) -> CanonicalTables:
    """Read the tables that ``source`` declares.

    Args:
        folder: where the files lie.
        source: files and columns.
        features: the feature columns that are wanted.
        on_bad_line: stop at rows without an id, a time or a label that can be understood, or leave them out and count them.

    Returns:
        ``time`` in the finest unit that any table has, milliseconds where it is text; ``day`` in days since 1970-01-01, local
        to ``source.time_zone``; ids as integers where all tables write them as plain integers, else as text. Items that
        have no row get one without features, counted in ``notes``.

    Raises:
        InputError: for a missing, damaged or changing file, a missing column, a value that is not what it must be, or an id
            twice among the items or users.
    """
    with _connection() as connection:
        return _Reader(connection, folder, source, features, on_bad_line).read()


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database that moves to disk what does not fit."""
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(config={"temp_directory": folder}) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


class _Reader:
    """One reading of one source; a step a method."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, source: Source, features: FeatureColumns, on_bad_line: OnBadLine
    ) -> None:  # fmt: skip
        self.connection, self.folder, self.source, self.features = connection, folder, source, features
        self.skip = on_bad_line == "skip"
        self.found: list[FoundFiles] = []
        self.left_out: dict[str, int] = {}
        self.notes: dict[str, int] = {}
        wanted = {
            "behaviors": [], "items": [name for name in features.item if name != GOODS],
            "users": [name for name in features.profile if name != USER_ID], "impressions": list(features.context),
        }  # fmt: skip
        self.parts = {table: self._load_all(table, getattr(source, table), wanted[table]) for table in wanted}
        for found in self.found:  # one file may serve two tables: it must be the same for both
            check_unchanged(found)
        everything = [part for parts in self.parts.values() for part in parts]
        self.users = Ids.of(
            connection, [(part, (part.block.user,)) for part in everything if hasattr(part.block, "user")]
        )
        self.items = Ids.of(
            connection, [(part, part.item_columns) for part in everything if part.item_columns]
        )
        events = [*self.parts["behaviors"], *self.parts["impressions"]]
        self.unit = max(time_unit(connection, part) for part in events)

    def read(self) -> CanonicalTables:
        for table in ("behaviors", "impressions"):
            self._make(table, [self._events(part) for part in self.parts[table]])
        for table, key in (("items", "item"), ("users", "user")):
            self._make(table, [self._entities(part, key) for part in self.parts[table]])
            self._make_unique(table, key)
        self._add_missing_items()
        self._count_missing_users()
        return CanonicalTables(
            behaviors=self._frame("behaviors"),
            items=self._frame("items"),
            users=self._frame("users"),
            impressions=self._frame("impressions"),
            left_out={reason: rows for reason, rows in self.left_out.items() if rows},
            notes={fact: rows for fact, rows in self.notes.items() if rows},
        )

    def _load_all(self, table: str, blocks: Sequence[TableFiles], wanted: list[str]) -> list[Part]:
        parts = [
            part
            for number, block in enumerate(blocks)
            if (part := self._load(f"raw_{table}_{number}", table, block, wanted))
        ]
        if blocks and not parts and table in ("behaviors", "impressions"):
            names = ", ".join(name for block in blocks for name in block.files)
            raise InputError(f"{self.folder}: found none of {names}, expected one of them for the {table}")
        derived = TIME_FEATURES if table == "impressions" else ()
        lost = [
            name
            for name in wanted
            if name not in derived and not any(name in part.features for part in parts)
        ]
        if lost:
            available = dict.fromkeys(column for part in parts for column in part.available)
            found = f"the columns {', '.join(available)}" if parts else "no such table"
            raise InputError(
                f"{table}: feature column(s) {', '.join(lost)} not found; the source has {found}"
            )
        return parts

    def _load(self, name: str, table: str, block: TableFiles, wanted: list[str]) -> Part | None:
        found = find_files(self.folder, block, page=self.source.page)
        if found is None:
            return None
        self.found.append(found)
        available = columns_of(found, block)
        part = Part.of(name, table, block, found.shown, available, wanted)
        columns = part.physical + (
            [TRUE_PROBABILITY] if TRUE_PROBABILITY in available and table == "impressions" else []
        )
        broken = load(self.connection, name, found, block, columns, skip_bad=self.skip)
        self._count(f"broken lines of {table}", broken)
        self._filter(part)
        if isinstance(block, BehaviorFiles) and block.sequence:
            part.explode(self.connection, block.sequence, block.separator)
        part.describe(self.connection)
        return part

    def _filter(self, part: Part) -> None:
        """Keep the rows that count; say what there is where none does."""
        for column, values in part.block.where.items():
            texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
            test = f"CAST({quoted(column)} AS VARCHAR) IN (SELECT unnest($texts))"
            before = self._rows(part.name)
            there = self.connection.execute(
                f"SELECT CAST({quoted(column)} AS VARCHAR) v, count(*) FROM {part.name} GROUP BY v ORDER BY 2 DESC, 1 LIMIT 8"
            ).fetchall()
            self.connection.execute(
                f"DELETE FROM {part.name} WHERE NOT coalesce({test}, false)", {"texts": texts}
            )
            kept = self._rows(part.name)
            if before and not kept:
                raise InputError(
                    f"{part.shown}, column {column}: no row has a value of where ({', '.join(texts)}); the column's values "
                    f"are {', '.join(str(value) for value, _ in there)}"
                )
            self._count(f"rows of {part.table} whose {column} is not {' or '.join(texts)}", before - kept)

    def _events(self, part: Part) -> str:
        """The SELECT that makes canonical behaviours or impressions of a part."""
        block = part.block
        assert isinstance(block, BehaviorFiles | ImpressionFiles)
        time = Checked(
            "time",
            block.time.column,
            time_value(self.connection, part, block.time, self.source.time_zone, self.unit),
            "a time",
        )
        if block.time.format:
            time = time.expecting(f"a time like {block.time.format}")
        checked = [
            self.users.checked("user", part, (block.user,)), self.items.checked("item", part, part.item_columns), time,
        ]  # fmt: skip
        if isinstance(block, ImpressionFiles):
            checked.append(
                Checked(
                    "label",
                    block.label.column,
                    label_value(part, block.label),
                    "0 or 1 (or name under label.positive the values that count as a click)",
                )
            )
        if block.day:
            checked.append(
                Checked("day", block.day, day_of(part, block.day), "a date like 2022-04-25 or 20220425")
            )
        self._check(part, checked)
        columns = [f"{column.value} AS {column.name}" for column in checked]
        if not block.day:
            columns.append(f"{local_time('day', time.value, self.unit, self.source.time_zone)} AS day")
        if isinstance(block, ImpressionFiles):
            columns += self._features(part)
            columns += [
                f"{local_time(name, time.value, self.unit, self.source.time_zone)} AS {quoted(name)}"
                for name in self.features.context
                if name in TIME_FEATURES and name not in part.features
            ]
            if TRUE_PROBABILITY in part.types:
                columns.append(f"CAST({TRUE_PROBABILITY} AS DOUBLE) AS {TRUE_PROBABILITY}")
        return f"SELECT {', '.join(columns)} FROM {part.name} WHERE {_all_there(checked)}"

    def _entities(self, part: Part, key: str) -> str:
        columns = part.item_columns if key == "item" else (part.block.user,)
        checked = [(self.items if key == "item" else self.users).checked(key, part, columns)]
        self._check(part, checked)
        chosen = [f"{checked[0].value} AS {key}", *self._features(part), f"{quoted(SOURCE_FILE)}"]
        return f"SELECT {', '.join(chosen)} FROM {part.name} WHERE {_all_there(checked)}"

    def _features(self, part: Part) -> list[str]:
        same = {
            name for name in part.features
            if len({other.types[other.features[name]] for other in self.parts[part.table] if name in other.features}) == 1
        }  # fmt: skip
        for name in part.features:
            if name in self.features.buckets:
                self._check_numbers(part, name)
        return [
            f"{feature_value(part, name, number=name in self.features.buckets, as_text=name not in same)} AS {quoted(name)}"
            for name in part.features
        ]

    def _check_numbers(self, part: Part, name: str) -> None:
        column = quoted(part.features[name])
        bad = first_row(
            self.connection,
            f"SELECT count(*), min(CAST({column} AS VARCHAR)) FROM {part.name} WHERE {column} IS NOT NULL AND TRY_CAST({column} AS DOUBLE) IS NULL",
        )
        if bad[0]:
            raise InputError(
                f"{part.shown}, column {part.features[name]}: {bad[0]:,} values are no numbers, such as {bad[1]!r}, but "
                f"features.buckets asks for numbers; clean them or take {name} off the buckets"
            )

    def _check(self, part: Part, checked: Sequence[Checked]) -> None:
        for column in checked:
            rows, value, file = first_row(
                self.connection,
                f"SELECT count(*), first({column.raw}), first({quoted(SOURCE_FILE)}) FROM {part.name} WHERE {column.value} IS NULL",
            )
            if not rows:
                continue
            found = f"{rows:,} rows have no value" if value is None else f"{rows:,} values such as {value!r}"
            if not self.skip:
                raise InputError(
                    f"{file}, column {column.shown} ({part.table}.{column.name}): found {found}, expected {column.expected}. Mend the "
                    "file, or set reading.on_bad_line to 'skip': such rows are then left out and counted."
                )
        if self.skip:
            lost = first_row(
                self.connection, f"SELECT count(*) FROM {part.name} WHERE NOT ({_all_there(checked)})"
            )[0]
            self._count(f"{part.table} without a proper {', '.join(column.name for column in checked)}", lost)

    def _make(self, table: str, selects: list[str]) -> None:
        if selects:
            self.connection.execute(f"CREATE TEMP TABLE {table} AS {' UNION ALL BY NAME '.join(selects)}")
        for part in self.parts[table]:
            self.connection.execute(f"DROP TABLE {part.name}")

    def _make_unique(self, table: str, key: str) -> None:
        if not self.parts[table]:
            return
        repeated = first_row(
            self.connection,
            f"SELECT {key}, first({quoted(SOURCE_FILE)}) FROM {table} GROUP BY {key} HAVING count(*) > 1 LIMIT 1",
        )
        if repeated is None:
            return
        blocks = [part.block for part in self.parts[table]]
        if all(isinstance(block, EntityFiles) and block.repeated == "error" for block in blocks):
            raise InputError(
                f"{repeated[1]}: {key} {repeated[0]} has two rows or more, expected one row for each {key}; set "
                f"source.{table}.repeated to first if its first row counts"
            )
        before = self._rows(table)
        self.connection.execute(
            f"DELETE FROM {table} WHERE rowid NOT IN (SELECT min(rowid) FROM {table} GROUP BY {key})"
        )
        self._count(f"further rows of the same {key} in {table}", before - self._rows(table))

    def _add_missing_items(self) -> None:
        used = " UNION ".join(
            f"SELECT DISTINCT item FROM {table}"
            for table in ("behaviors", "impressions")
            if self.parts[table]
        )
        if not self.parts["items"]:
            self.connection.execute(f"CREATE TEMP TABLE items AS SELECT item FROM ({used}) ORDER BY item")
            return
        for table in ("behaviors", "impressions"):
            if self.parts[table]:
                self.notes[f"{table} of items that have no row among the items"] = first_row(
                    self.connection, f"SELECT count(*) FROM {table} ANTI JOIN items USING (item)"
                )[0]
        self.connection.execute(
            f"INSERT INTO items BY NAME SELECT item FROM ({used}) ANTI JOIN items USING (item) ORDER BY item"
        )

    def _count_missing_users(self) -> None:
        if self.parts["users"] and self.parts["impressions"]:
            self.notes["impressions of users that have no row among the users"] = first_row(
                self.connection, "SELECT count(*) FROM impressions ANTI JOIN users USING (user)"
            )[0]

    def _frame(self, table: str) -> pd.DataFrame | None:
        if table != "items" and not self.parts[table]:
            return None
        exclude = (
            f"EXCLUDE ({quoted(SOURCE_FILE)})" if self.parts[table] and table in ("items", "users") else ""
        )
        arrow = self.connection.sql(f"SELECT * {exclude} FROM {table}").to_arrow_table()
        self.connection.execute(f"DROP TABLE {table}")
        return arrow.to_pandas(split_blocks=True, self_destruct=True)

    def _rows(self, table: str) -> int:
        return first_row(self.connection, f"SELECT count(*) FROM {table}")[0]

    def _count(self, reason: str, rows: int) -> None:
        if rows:
            self.left_out[reason] = self.left_out.get(reason, 0) + rows


def _all_there(checked: Sequence[Checked]) -> str:
    return " AND ".join(f"({column.value}) IS NOT NULL" for column in checked)
