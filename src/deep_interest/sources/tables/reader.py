"""Tables of any layout to canonical tables, as a dataset's block declares them; DuckDB does the reading."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import duckdb
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.encoding import GOODS, USER_ID, FeatureColumns
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.sources.database import confine, connect
from deep_interest.sources.sql import quoted
from deep_interest.sources.tables.checks import Checks
from deep_interest.sources.tables.columns import Ids, Part
from deep_interest.sources.tables.declaration import BehaviorFiles, Source, TableFiles
from deep_interest.sources.tables.entities import add_missing_items, make_unique, select_entities
from deep_interest.sources.tables.events import EventForm, positive_texts, select_events
from deep_interest.sources.tables.files import FoundFiles, check_unchanged, find_files
from deep_interest.sources.tables.scan import SOURCE_FILE, columns_of, load
from deep_interest.sources.tables.times import TIME_FEATURES, time_unit

OnBadLine = Literal["error", "skip"]


def read_tables(
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
    with connect() as connection:
        return _Reader(connection, folder, source, features, on_bad_line).read()


class _Reader:
    """One reading of one source; a step a method."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, source: Source, features: FeatureColumns, on_bad_line: OnBadLine
    ) -> None:  # fmt: skip
        self.connection, self.folder, self.source, self.features = connection, folder, source, features
        self.checks = Checks(connection, skip=on_bad_line == "skip")
        wanted = {
            "behaviors": [], "items": [name for name in features.item if name != GOODS],
            "users": [name for name in features.profile if name != USER_ID], "impressions": list(features.context),
        }  # fmt: skip
        found = {table: [self._find(block) for block in getattr(source, table)] for table in wanted}
        every = [files for of_table in found.values() for files in of_table if files]
        confine(connection, [file for files in every for file in files.files])
        self.parts = {
            table: self._load_all(table, getattr(source, table), found[table], wanted[table])
            for table in wanted
        }
        for files in every:  # one file may serve two tables: it must be the same for both
            check_unchanged(files)

    def read(self) -> CanonicalTables:
        parts, form = self.parts, self._form()
        self._require_positives()
        for table in ("behaviors", "impressions"):
            selects = [
                select_events(part, parts[table], form, self.features, self.checks) for part in parts[table]
            ]
            self._make(table, selects)
        for table, key, ids in (("items", "item", form.items), ("users", "user", form.users)):
            selects = [
                select_entities(part, parts[table], key, ids, self.features, self.checks)
                for part in parts[table]
            ]
            self._make(table, selects)
            if selects:
                make_unique(table, key, [part.block for part in parts[table]], self.checks)
        events = [table for table in ("behaviors", "impressions") if parts[table]]
        notes = add_missing_items(events, self.checks, declared=bool(parts["items"]))
        if parts["users"] and parts["impressions"]:
            strangers = self.checks.rows("impressions ANTI JOIN users USING (user)")
            notes["impressions of users that have no row among the users"] = strangers
        return CanonicalTables(
            behaviors=self._frame("behaviors"),
            items=self._frame("items"),
            users=self._frame("users"),
            impressions=self._frame("impressions"),
            left_out=self.checks.left_out,
            notes={fact: rows for fact, rows in notes.items() if rows},
        )

    def _form(self) -> EventForm:
        """How ids and times are written in all tables alike."""
        everything = [part for parts in self.parts.values() for part in parts]
        return EventForm(
            users=Ids.of(
                self.connection,
                [(part, (part.block.user,)) for part in everything if hasattr(part.block, "user")],
            ),
            items=Ids.of(
                self.connection, [(part, part.item_columns) for part in everything if part.item_columns]
            ),
            zone=self.source.time_zone,
            unit=max(
                time_unit(self.connection, part)
                for part in [*self.parts["behaviors"], *self.parts["impressions"]]
            ),
        )

    def _require_positives(self) -> None:
        """Where clicks have values of their own, one of them must stand there."""
        named = [part for part in self.parts["impressions"] if part.block.label.positive is not None]
        there: Counter[str] = Counter()
        for part in named:
            column = quoted(part.block.label.column)
            values = self.connection.execute(
                f"SELECT CAST({column} AS VARCHAR) v, count(*) FROM {part.name} GROUP BY v"
            ).fetchall()
            if any(value in positive_texts(part.block.label) for value, _ in values):
                return
            there.update({str(value): rows for value, rows in values})
        if there:
            part = named[0]
            raise InputError(
                f"{part.shown}, column {part.block.label.column}: no row has a value of label.positive "
                f"({', '.join(positive_texts(part.block.label))}); the column's values are {', '.join(value for value, _ in there.most_common(8))}"
            )

    def _find(self, block: TableFiles) -> FoundFiles | None:
        return find_files(self.folder, block, page=self.source.page)

    def _load_all(
        self, table: str, blocks: Sequence[TableFiles], found: Sequence[FoundFiles | None], wanted: list[str]
    ) -> list[Part]:
        parts = [
            self._load(f"raw_{table}_{number}", table, block, files, wanted)
            for number, (block, files) in enumerate(zip(blocks, found, strict=True))
            if files
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

    def _load(self, name: str, table: str, block: TableFiles, found: FoundFiles, wanted: list[str]) -> Part:
        available = columns_of(found, block, skip_bad=self.checks.skip)
        part = Part.of(name, table, block, found.shown, available, wanted)
        columns = part.physical + (
            [TRUE_PROBABILITY] if TRUE_PROBABILITY in available and table == "impressions" else []
        )
        broken = load(self.connection, name, found, block, columns, skip_bad=self.checks.skip)
        self.checks.count(f"broken lines of {table}", broken)
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
            before = self.checks.rows(part.name)
            there = self.connection.execute(
                f"SELECT CAST({quoted(column)} AS VARCHAR) v, count(*) FROM {part.name} GROUP BY v ORDER BY 2 DESC, 1 LIMIT 8"
            ).fetchall()
            self.connection.execute(
                f"DELETE FROM {part.name} WHERE NOT coalesce({test}, false)", {"texts": texts}
            )
            kept = self.checks.rows(part.name)
            if before and not kept:
                raise InputError(
                    f"{part.shown}, column {column}: no row has a value of where ({', '.join(texts)}); the column's values "
                    f"are {', '.join(str(value) for value, _ in there)}"
                )
            self.checks.count(
                f"rows of {part.table} whose {column} is not {' or '.join(texts)}", before - kept
            )

    def _make(self, table: str, selects: list[str]) -> None:
        if selects:
            self.connection.execute(f"CREATE TEMP TABLE {table} AS {' UNION ALL BY NAME '.join(selects)}")
        for part in self.parts[table]:
            self.connection.execute(f"DROP TABLE {part.name}")

    def _frame(self, table: str) -> pd.DataFrame | None:
        if table != "items" and not self.parts[table]:
            return None
        exclude = (
            f"EXCLUDE ({quoted(SOURCE_FILE)})" if self.parts[table] and table in ("items", "users") else ""
        )
        arrow = self.connection.sql(f"SELECT * {exclude} FROM {table}").to_arrow_table()
        self.connection.execute(f"DROP TABLE {table}")
        return arrow.to_pandas(split_blocks=True, self_destruct=True)
