"""Read the tables of an off-policy evaluation: what was shown with which probability, and what another version would show."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.sources.database import connect, restrict_to_files
from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.checks import RowChecks, keep_declared_rows
from deep_interest.sources.tables.column_declarations import database_strings
from deep_interest.sources.tables.columns import RawTable, RequiredColumn
from deep_interest.sources.tables.decimals import number_sql
from deep_interest.sources.tables.decision_declaration import (
    CandidateFiles,
    DecisionFiles,
    DecisionSource,
    RequestFiles,
)
from deep_interest.sources.tables.encodings import convert_to_utf8, name_originals
from deep_interest.sources.tables.files import check_unchanged, resolve_files
from deep_interest.sources.tables.reader import OnBadLine
from deep_interest.sources.tables.scan import common_columns, load_files

_WITH_SLOT = "a whole number"


@dataclass(frozen=True)
class DecisionTables:
    """Tables of an off-policy evaluation; ids are strings, and slots begin at 1 in each table.

    Attributes:
        log: columns ``user`` (empty without one), ``request``, ``item``, ``slot``, ``reward``, ``propensity``, ``target`` (NaN without one).
        candidates: columns ``request``, ``item``, ``slot``, ``probability`` or ``score``; None without any.
        target_log: columns of ``log``; None without any.
        left_out: ``{reason: number of rows}`` that were skipped.
    """

    log: pd.DataFrame
    candidates: pd.DataFrame | None
    target_log: pd.DataFrame | None
    left_out: dict[str, int]


def read_decisions(
    folder: Path, source: DecisionSource, *, on_bad_line: OnBadLine = "error"
) -> DecisionTables:
    """Read the tables that ``source`` declares.

    Args:
        folder: folder that relative file names refer to.
        source: declaration of files and columns.
        on_bad_line: ``error`` to raise at the first invalid row, ``skip`` to skip and count such rows.

    Raises:
        InputError: a file is missing, damaged or changes during reading, a column is missing, or a row has an invalid value.
    """
    blocks: dict[str, RequestFiles] = {"log": source.log}
    if source.candidates is not None:
        blocks["candidates"] = source.candidates
    if source.target_log is not None:
        blocks["target_log"] = source.target_log
    with tempfile.TemporaryDirectory() as copies, connect() as connection:
        checks = RowChecks(connection, skip=on_bad_line == "skip")
        resolved = {}
        for target, block in blocks.items():
            found = resolve_files(folder, block)
            if found is None:
                raise InputError(
                    f"source.{target}.files: none of {', '.join(block.files)} exists; remove optional, every table is needed"
                )
            resolved[target] = convert_to_utf8(found, block, Path(copies) / target)
        restrict_to_files(connection, [file for each in resolved.values() for file in each.files])
        tables = {}
        for target, files in resolved.items():
            with name_originals(files):
                available = common_columns(files, blocks[target], skip_bad=checks.skip)
            table = RawTable.resolve(
                f"raw_{target}", target, blocks[target], files.display_name, available, ()
            )
            with name_originals(files):
                skipped = load_files(
                    connection, table.name, files, blocks[target], table.columns_to_read, skip_bad=checks.skip
                )
            for reason, rows in skipped.items():
                checks.count_skipped(f"{reason} of {target}", rows)
            keep_declared_rows(checks, table)
            table.load_column_types(connection)
            tables[target] = _fetch(connection, checks, table)
        for files in resolved.values():
            check_unchanged(files)
        return DecisionTables(
            tables["log"], tables.get("candidates"), tables.get("target_log"), checks.skipped_rows
        )


def _fetch(connection: duckdb.DuckDBPyConnection, checks: RowChecks, table: RawTable) -> pd.DataFrame:
    block = table.block
    assert isinstance(block, RequestFiles)
    required = [_id("item", block.item)]
    if block.request:
        required.append(_id("request", block.request))
    if block.slot:
        whole = f"TRY_CAST({quote_identifier(block.slot)} AS BIGINT)"
        required.append(RequiredColumn("slot", block.slot, whole, _WITH_SLOT))
    if isinstance(block, DecisionFiles):
        required += _of_decisions(table, block)
    if isinstance(block, CandidateFiles):
        name = "probability" if block.probability else "score"
        column = block.probability or block.score or ""
        required.append(
            _probability(name, table, column, "0") if block.probability else _number(name, table, column)
        )
    is_valid = checks.require_values(table, required)
    values = {column.name: column.sql for column in required}
    defaults = {"request": "CAST(rowid AS VARCHAR)", "slot": "1"}
    if isinstance(block, DecisionFiles):
        defaults |= {"user": "''", "propensity": "CAST(NULL AS DOUBLE)", "target": "CAST(NULL AS DOUBLE)"}
    columns = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in (defaults | values).items())
    frame = connection.sql(f"SELECT {columns} FROM {table.name} WHERE {is_valid} ORDER BY rowid").df()
    if frame.empty:
        raise InputError(f"{table.display_name}: no rows remain; check the rows that were dropped")
    frame["slot"] = frame["slot"].astype("int64") - int(frame["slot"].min()) + 1
    return frame


def _of_decisions(table: RawTable, block: DecisionFiles) -> list[RequiredColumn]:
    columns = [_reward(table, block)]
    if block.user:
        columns.append(_id("user", block.user))
    if block.propensity:
        columns.append(_probability("propensity", table, block.propensity, "0 (excluded)"))
    if block.target:
        columns.append(_probability("target", table, block.target, "0"))
    return columns


def _id(name: str, columns: tuple[str, ...]) -> RequiredColumn:
    texts = [f"CAST({quote_identifier(column)} AS VARCHAR)" for column in columns]
    return RequiredColumn(name, columns[0], " || '|' || ".join(texts), "an id", columns=columns)


def _probability(name: str, table: RawTable, column: str, lowest: str) -> RequiredColumn:
    number = number_sql(table, column)
    comparison = ">=" if lowest == "0" else ">"
    sql = f"(CASE WHEN {number} {comparison} 0 AND {number} <= 1 THEN {number} END)"
    return RequiredColumn(name, column, sql, f"a probability from {lowest} to 1")


def _number(name: str, table: RawTable, column: str) -> RequiredColumn:
    number = number_sql(table, column)
    return RequiredColumn(name, column, f"(CASE WHEN isfinite({number}) THEN {number} END)", "a number")


def _reward(table: RawTable, block: DecisionFiles) -> RequiredColumn:
    text, number = (
        f"CAST({quote_identifier(block.reward.column)} AS VARCHAR)",
        number_sql(table, block.reward.column),
    )
    if block.reward.positive is not None:
        positive = ", ".join(quote_literal(value) for value in database_strings(block.reward.positive))
        sql = f"CAST(coalesce({text} IN ({positive}), false) AS DOUBLE)"
    else:
        sql = (
            f"(CASE WHEN lower({text}) = 'true' THEN 1.0 WHEN lower({text}) = 'false' THEN 0.0 "
            f"WHEN isfinite({number}) AND {number} >= 0 THEN CAST({number} AS DOUBLE) END)"
        )
    return RequiredColumn(
        "reward",
        block.reward.column,
        sql,
        "a number of at least 0 (for words set reward: {column: …, positive: …})",
    )
