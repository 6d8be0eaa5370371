"""Read declared tables of any layout and convert them to canonical tables with DuckDB."""

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import duckdb
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID, TIME_FEATURES, USER_ID, FeatureColumns
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.sources.database import connect, restrict_to_files
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.checks import RowChecks, keep_declared_rows
from deep_interest.sources.tables.columns import IdType, RawTable
from deep_interest.sources.tables.declaration import (
    EntityFiles,
    ImpressionFiles,
    Source,
    TableFiles,
)
from deep_interest.sources.tables.encodings import convert_to_utf8, name_originals
from deep_interest.sources.tables.entities import add_missing_items, drop_duplicates, select_entities
from deep_interest.sources.tables.events import (
    EventFormat,
    check_positive_labels,
    select_events,
    use_clicks,
)
from deep_interest.sources.tables.expansion import expand_lists
from deep_interest.sources.tables.files import ResolvedFiles, check_unchanged, resolve_files
from deep_interest.sources.tables.given import check_splits, count_segments, separate_histories
from deep_interest.sources.tables.hints import missing_feature
from deep_interest.sources.tables.lists import number_rows
from deep_interest.sources.tables.scan import SOURCE_FILE, common_columns, load_files
from deep_interest.sources.tables.times import is_ordered, local_time_sql, ticks_per_second

OnBadLine = Literal["error", "skip"]


def read_tables(
    folder: Path, source: Source, features: FeatureColumns, *, on_bad_line: OnBadLine = "error"
) -> CanonicalTables:
    """Read the tables that ``source`` declares.

    Args:
        folder: folder that relative file names refer to.
        source: declaration of files and columns.
        features: feature columns to read.
        on_bad_line: ``error`` to raise at the first row without a valid id, time or label, ``skip`` to skip and count
            such rows.

    Returns:
        Canonical tables. ``time`` is in the finest unit of any table, milliseconds for strings; ``day`` counts days
        since 1970-01-01 in ``source.time_zone``. Ids are integers if all tables write plain integers, otherwise
        strings. Items that occur in an event but have no row get one without features and are counted in ``notes``.

    Raises:
        InputError: a file is missing, damaged or changes during reading, a column is missing, a value is invalid, or
            an item or user id is repeated.
    """
    with tempfile.TemporaryDirectory() as copies, connect() as connection:
        return TableReader(connection, folder, Path(copies), source, features, on_bad_line).read()


class TableReader:
    """Reads one source; each method is one step.

    Args:
        connection: database of the raw and canonical tables.
        folder, source, features, on_bad_line: see `read_tables`.
        copies: folder for files in UTF-8 of those in other encodings.
        workspace: folder in which the connection may write files; None for none.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        folder: Path,
        copies: Path,
        source: Source,
        features: FeatureColumns,
        on_bad_line: OnBadLine,
        workspace: Path | None = None,
    ) -> None:
        self.connection, self.folder, self.source, self.features = connection, folder, source, features
        self.copies = copies  # files in UTF-8 of those in other encodings
        self.notes: dict[str, int] = {}
        self.checks = RowChecks(connection, skip=on_bad_line == "skip")
        target_features = {
            "behaviors": list(features.columns_of_behaviors),
            "items": [name for name in features.item if name != ITEM_ID],
            "users": [name for name in features.profile if name != USER_ID],
            "impressions": list(features.columns_of_impressions),
        }
        resolved = {
            target: [
                self._resolve_files(block, f"{target}{index}")
                for index, block in enumerate(getattr(source, target))
            ]
            for target in target_features
        }
        all_files = [
            block_files for per_block in resolved.values() for block_files in per_block if block_files
        ]
        files = [file for block_files in all_files for file in block_files.files]
        restrict_to_files(connection, files, workspace)
        self.given_histories: list[RawTable] = []
        of_clicks = list(features.columns_of_behaviors) if source.uses_clicks else []
        self.raw_tables = {
            target: self._load_blocks(
                target,
                getattr(source, target),
                resolved[target],
                names + (of_clicks if target == "impressions" else []),
            )
            for target, names in target_features.items()
        }
        self.raw_tables["behaviors"] += self.given_histories
        for target, names in target_features.items():
            self._require_features(target, names)
        for block_files in all_files:  # a file that serves two tables must be the same for both
            check_unchanged(block_files)

    def read(self) -> CanonicalTables:
        """Return the canonical tables."""
        notes = self.create()
        return CanonicalTables(
            behaviors=self.fetch("behaviors"),
            items=self.fetch("items"),
            users=self.fetch("users"),
            impressions=self.fetch("impressions"),
            left_out=self.checks.skipped_rows,
            notes=notes,
        )

    def create(self) -> dict[str, int]:
        """Create the canonical tables in the database, and return what is remarkable about them."""
        raw_tables, event_format = self.raw_tables, self._infer_event_format()
        check_positive_labels(self.connection, raw_tables["impressions"])
        check_splits(self.connection, raw_tables["impressions"])
        for target in ("behaviors", "impressions"):
            selects = [
                select_events(table, raw_tables[target], event_format, self.features, self.checks)
                for table in raw_tables[target]
            ]
            self._create(target, selects)
        notes = self.notes
        if self.source.uses_clicks:
            ticks, zone = event_format.ticks_per_second, event_format.time_zone
            click_day = (
                local_time_sql("day", "click_time", ticks, zone) if self.source.has_click_times else None
            )
            notes |= use_clicks(
                self.connection, raw_tables["behaviors"], raw_tables["impressions"], self.features, click_day=click_day,
            )  # fmt: skip
        for target, key, id_type in (
            ("items", "item", event_format.item_ids),
            ("users", "user", event_format.user_ids),
        ):
            selects = [
                select_entities(table, raw_tables[target], key, id_type, self.features, self.checks)
                for table in raw_tables[target]
            ]
            self._create(target, selects)
            if selects:
                blocks = [table.block for table in raw_tables[target] if isinstance(table.block, EntityFiles)]
                drop_duplicates(target, key, blocks, self.checks)
        events = ["behaviors", *(["impressions"] if raw_tables["impressions"] else [])]
        notes |= add_missing_items(events, self.checks, is_declared=bool(raw_tables["items"]))
        if raw_tables["users"] and raw_tables["impressions"]:
            rows = self.checks.count_rows("impressions ANTI JOIN users USING (user)")
            notes["impressions whose user is not in the user table"] = rows
        notes |= self.checks.notes
        return {note: rows for note, rows in notes.items() if rows}

    def _infer_event_format(self) -> EventFormat:
        """Infer the types of ids and the unit of times that all tables can use."""
        tables = [table for per_target in self.raw_tables.values() for table in per_target]
        return EventFormat(
            user_ids=IdType.infer(
                self.connection,
                [(table, table.user_columns) for table in tables if table.user_columns],
            ),
            item_ids=IdType.infer(
                self.connection, [(table, table.item_columns) for table in tables if table.item_columns]
            ),
            time_zone=self.source.time_zone,
            ticks_per_second=max(
                ticks_per_second(self.connection, table)
                for table in [*self.raw_tables["behaviors"], *self.raw_tables["impressions"]]
            ),
        )

    def _resolve_files(self, block: TableFiles, name: str) -> ResolvedFiles | None:
        resolved = resolve_files(self.folder, block, page=self.source.page)
        return resolved and convert_to_utf8(resolved, block, self.copies / name)

    def _load_blocks(
        self,
        target: str,
        blocks: Sequence[TableFiles],
        resolved: Sequence[ResolvedFiles | None],
        features: list[str],
    ) -> list[RawTable]:
        tables = [
            self._load_block(f"raw_{target}_{index}", target, block, block_files, features)
            for index, (block, block_files) in enumerate(zip(blocks, resolved, strict=True))
            if block_files
        ]
        for previous, table in pairwise(tables):
            table.first_position = previous.first_position + self.checks.count_rows(previous.name)
        if blocks and not tables and target in ("behaviors", "impressions"):
            names = ", ".join(name for block in blocks for name in block.files)
            raise InputError(
                f"{self.folder}: no files for the {target}; expected at least one of {names} (source.{target}.files)"
            )
        return tables

    def _require_features(self, target: str, features: Sequence[str]) -> None:
        """Check that a file of the table has each feature, or for features of behaviours that are clicks, a file of impressions."""
        clicks = target == "behaviors" and self.source.uses_clicks
        tables = [*self.raw_tables[target], *(self.raw_tables["impressions"] if clicks else [])]
        derived_features = (
            TIME_FEATURES if target in ("behaviors", "impressions") and self.source.has_times else ()
        )
        missing = [
            name
            for name in features
            if name not in derived_features and not any(name in table.feature_columns for table in tables)
        ]
        if missing:
            columns = list(dict.fromkeys(column for table in tables for column in table.available_columns))
            available = f"the columns are {', '.join(columns)}" if tables else f"the source has no {target}"
            advice = missing_feature(target, missing[0], columns, position=self.features.position)
            if self.source.has_histories and target == "behaviors":
                advice = f"name its list, source.impressions.history.columns: {{{missing[0]}: …}}, or remove it from features.behavior"
            raise InputError(
                f"{target}: feature column(s) {', '.join(missing)} not found; {available}; {advice}"
            )

    def _load_block(
        self, name: str, target: str, block: TableFiles, block_files: ResolvedFiles, features: list[str]
    ) -> RawTable:
        with name_originals(block_files):
            available_columns = common_columns(block_files, block, skip_bad=self.checks.skip)
        table = RawTable.resolve(name, target, block, block_files.display_name, available_columns, features)
        columns = table.columns_to_read
        if target == "impressions" and TRUE_PROBABILITY in available_columns:
            columns = [*columns, TRUE_PROBABILITY]
        with name_originals(block_files):
            skipped = load_files(
                self.connection, name, block_files, block, columns, skip_bad=self.checks.skip
            )
        for reason, rows in skipped.items():
            self.checks.count_skipped(f"{reason} of {target}", rows)
        if is_ordered(block) or (isinstance(block, ImpressionFiles) and block.sequence):
            number_rows(self.connection, table, block_files.originals)
        keep_declared_rows(self.checks, table)
        table.load_column_types(self.connection)
        if isinstance(block, ImpressionFiles) and block.history:
            earlier = self.given_histories
            segments = count_segments(self.connection, earlier[-1]) if earlier else 0
            earlier.append(
                separate_histories(self.checks, table, self.features.columns_of_behaviors, segments)
            )
        expand_lists(self.checks, table, self.source.time_zone)
        return table

    def _create(self, target: str, selects: list[str]) -> None:
        if selects:
            self.connection.execute(f"CREATE TABLE {target} AS {' UNION ALL BY NAME '.join(selects)}")
        for table in self.raw_tables[target]:
            self.connection.execute(f"DROP TABLE {table.name}")

    def fetch(self, target: str) -> pd.DataFrame | None:
        """Return a canonical table and remove it from the database; None if the source does not declare it."""
        if target in ("users", "impressions") and not self.raw_tables[target]:
            return None
        has_source_file = self.raw_tables[target] and target in ("items", "users")
        exclude = f"EXCLUDE ({quote_identifier(SOURCE_FILE)})" if has_source_file else ""
        arrow = self.connection.sql(f"SELECT * {exclude} FROM {target}").to_arrow_table()
        self.connection.execute(f"DROP TABLE {target}")
        return arrow.to_pandas(split_blocks=True, self_destruct=True)
