"""Load declared files into DuckDB: CSV, Parquet, JSON lines and DuckDB databases."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import LINE_LIMIT, text_lines, verify_text
from deep_interest.sources.sql import exact_path, quote_identifier, quote_literal
from deep_interest.sources.tables.csv_errors import csv_message
from deep_interest.sources.tables.database_files import (
    attach,
    external_access_error,
    qualified_name,
    read_database_columns,
)
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.dialect import CSV_LINE_LIMIT, Dialect, read_header
from deep_interest.sources.tables.files import ResolvedFiles, check_unchanged, partition_keys

SOURCE_FILE = "source file"  # column with the file that a row comes from
_LINE_LIMITS = {"csv": CSV_LINE_LIMIT, "json": LINE_LIMIT}  # bytes
_Groups = dict[tuple[tuple[str, ...], Dialect | None], list[Path]]
# Text within quotes rarely has as many delimiters in each of its lines as a row with three values.
_FEWEST_VALUES = 3
_SAMPLED_LINES = 1000  # JSON lines that are read to find the keys
_QUOTED_LINES = "lines within an unbalanced quote (quote: none keeps them)"
# lines of rejected records, which an unbalanced quote may extend over many; one record may have several errors
_REJECTS = """SELECT is_quote, sum(lines) FROM (
    SELECT bool_or(error_type = 'UNQUOTED VALUE') AS is_quote,
           max(1 + len(regexp_extract_all(rtrim(coalesce(csv_line, ''), chr(10) || chr(13)), chr(10)))) AS lines
    FROM reject_errors GROUP BY file_id, line) GROUP BY is_quote"""
_NULL_STRINGS = ["", "nan", "NaN", "NULL", "null"]  # strings in CSV files that mean a missing value


def common_columns(resolved: ResolvedFiles, table: TableFiles, *, skip_bad: bool = False) -> list[str]:
    """Return the columns that all files have, including the keys of partition folders."""
    first, *others = [columns for columns, _ in _group_files(resolved, table, skip_bad=skip_bad)]
    return [name for name in first if all(name in columns for columns in others)]


def load_files(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    resolved: ResolvedFiles,
    table: TableFiles,
    columns: Iterable[str],
    *,
    skip_bad: bool = False,
) -> dict[str, int]:
    """Load columns of the files into the database table ``name``, with the column `SOURCE_FILE`.

    Columns of CSV and JSON lines are strings, columns of Parquet keep their types.

    Args:
        connection: database to load into.
        name: name of the new table.
        resolved: files to load.
        table: declaration of the table.
        columns: columns to load.
        skip_bad: whether to skip malformed lines; otherwise a malformed line raises an error.

    Returns:
        ``{reason: number of CSV lines skipped}``.

    Raises:
        InputError: a file is damaged or changed during reading, a line is malformed or too long, or a view in a
            database reads something outside the database.
    """
    lines = 0
    if resolved.format in _LINE_LIMITS:
        lines = sum(verify_text(file, _LINE_LIMITS[resolved.format]) for file in resolved.files)
    scans = []
    parameters: dict[str, Any] = {"null_strings": _NULL_STRINGS} if resolved.format == "csv" else {}
    source_file = quote_identifier(SOURCE_FILE)
    if resolved.files != resolved.originals:
        source_file = f"$originals[list_position($copies, {source_file})] AS {source_file}"
        parameters |= {
            "originals": list(map(str, resolved.originals)),
            "copies": list(map(str, resolved.files)),
        }
    groups = _group_files(resolved, table, skip_bad=skip_bad)
    for group, ((group_columns, dialect), files) in enumerate(groups.items()):
        selected = sorted(set(columns) & set(group_columns))
        if resolved.format == "duckdb":
            attach(connection, files[0], group)
        else:
            parameters[f"files{group}"] = [exact_path(file) for file in files]
        scan = _scan_sql(
            resolved.format, table, group_columns, selected, files[0], dialect, group=group, skip_bad=skip_bad
        )
        scans.append(f"SELECT {', '.join([*map(quote_identifier, selected), source_file])} FROM {scan}")
    drop_rejects = "DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans"
    connection.execute(drop_rejects)
    sql = f"CREATE TABLE {name} AS {' UNION ALL BY NAME '.join(scans)}"
    _execute(connection, sql, parameters, resolved)
    if resolved.format == "duckdb":
        connection.execute("DETACH database0")
    check_unchanged(resolved)
    if resolved.format != "csv":
        return {}
    skipped: dict[str, int] = {}
    if skip_bad:
        rows = connection.execute(_REJECTS).fetchall()
        connection.execute(drop_rejects)
        skipped = {_QUOTED_LINES if is_quote else "malformed lines": int(count) for is_quote, count in rows}
    headers = 0 if table.names else len(resolved.files)
    _check_quotes(connection, name, resolved, table, groups, lines - headers - sum(skipped.values()))
    return skipped


def fetch_first_row(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any] | None = None
) -> tuple | None:
    """Run a query to its end and return its first row, or None if it has no rows."""
    rows = connection.execute(sql, parameters or {}).fetchall()
    return rows[0] if rows else None


def fetch_aggregates(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any] | None = None
) -> tuple:
    """Run a query of aggregates without GROUP BY to its end and return its only row."""
    (row,) = connection.execute(sql, parameters or {}).fetchall()
    return row


def _group_files(resolved: ResolvedFiles, table: TableFiles, *, skip_bad: bool) -> _Groups:
    """Group the files by columns and dialect, because a table may gain or reorder columns over time."""
    groups: _Groups = {}
    for file in resolved.files:
        columns, dialect = _read_columns(file, resolved.format, table, skip_bad=skip_bad)
        keys = [key for key in partition_keys(file) if key not in columns]
        groups.setdefault(((*columns, *keys), dialect), []).append(file)
    if resolved.format == "duckdb" and len(resolved.files) > 1:
        raise InputError(
            f"{resolved.display_name}: a block can read one database, found {len(resolved.files)}; declare a list with "
            "one block per database"
        )
    return groups


def _read_columns(
    file: Path, format_: str, table: TableFiles, *, skip_bad: bool
) -> tuple[list[str], Dialect | None]:
    if format_ == "csv":
        return read_header(file, table)
    if format_ == "parquet":
        try:
            return pq.read_schema(file).names, None
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(
                f"{file}: not a valid Parquet file ({error}). Check that it is complete, or write it again."
            ) from error
    if format_ == "json":
        return _read_json_keys(file, skip_bad=skip_bad), None
    return read_database_columns(file, table), None


def _check_quotes(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    resolved: ResolvedFiles,
    table: TableFiles,
    groups: _Groups,
    lines: int,
) -> None:
    """Raise an error if quotes join lines that have all values without quoting, unless the quote is declared.

    Args:
        connection: database with the loaded table.
        name: name of the loaded table.
        resolved: CSV files of the table.
        table: declaration of the table.
        groups: files by columns and dialect.
        lines: number of lines that should be rows.
    """
    (rows,) = fetch_aggregates(connection, f"SELECT count(*) FROM {name}")
    if lines <= rows or "quote" in table.model_fields_set or not table.quote:
        return
    unquoted, values = 0, 0
    for (columns, dialect), files in groups.items():
        assert dialect is not None
        values = len(columns) - len(partition_keys(files[0]))
        scan = _scan_sql(
            "csv", table, columns, (), files[0], replace(dialect, quote=""), group=0, skip_bad=False
        )
        try:
            (count,) = fetch_aggregates(
                connection,
                f"SELECT count(*) FROM {scan}",
                {"null_strings": _NULL_STRINGS, "files0": [exact_path(file) for file in files]},
            )
        except duckdb.Error:
            return  # the values of some lines continue on the next line
        unquoted += count
    if values >= _FEWEST_VALUES and unquoted > rows:
        raise InputError(
            f"{resolved.display_name}: {unquoted - rows:,} line(s) are within quotes of an earlier line, although every line has {values} "
            "values without quoting. If quotes are ordinary characters, set quote: none, which keeps every row; if values contain line "
            "breaks, set quote: '\"'."
        )


def _read_json_keys(file: Path, *, skip_bad: bool) -> list[str]:
    keys: dict[str, None] = {}
    for line_number, line in islice(text_lines(file), _SAMPLED_LINES):
        try:
            entry = json.loads(line)
            problem = "" if isinstance(entry, dict) else f"a JSON {type(entry).__name__}"
        except (ValueError, RecursionError) as error:  # RecursionError: thousands of nested brackets
            entry, problem = {}, str(error)
        if not problem:
            keys |= dict.fromkeys(entry)
        elif not skip_bad:
            advice = "Fix the line, or set reading.on_bad_line to 'skip' to skip and count such lines."
            if line.strip()[:1] == b"[" or line.strip() == b"{":
                advice = "Write the file as JSON lines, for example with pandas: frame.to_json(path, orient='records', lines=True)."
            raise InputError(
                f"{file}, line {line_number}: expected one JSON object per line, found {problem}. {advice}"
            )
    return list(keys)


def _scan_sql(
    format_: str,
    table: TableFiles,
    columns: Sequence[str],
    selected: Sequence[str],
    file: Path,
    dialect: Dialect | None,
    *,
    group: int,
    skip_bad: bool,
) -> str:
    """Return the table function that reads a group of files with equal columns; ``file`` is one of them."""
    keys = partition_keys(file)
    hive = "hive_partitioning=true, hive_types_autocast=false" if keys else "hive_partitioning=false"
    common = f"$files{group}, filename='{SOURCE_FILE}', {hive}"
    if format_ == "parquet":
        return f"read_parquet({common}, union_by_name=true)"
    if format_ == "duckdb":
        path = quote_literal(str(file))
        relation = qualified_name(f"database{group}", table)
        return f"(SELECT *, {path} AS {quote_identifier(SOURCE_FILE)} FROM {relation})"
    if format_ == "json":
        ignore = ", ignore_errors=true" if skip_bad else ""
        types = _string_types(name for name in selected if name not in keys)
        return f"read_json({common}, format='newline_delimited', columns={types}{ignore})"
    assert dialect is not None  # of a CSV file
    types = _string_types(name for name in columns if name not in keys)
    header, rejects = ("false" if table.names else "true"), (", store_rejects=true" if skip_bad else "")
    return (
        f"read_csv({common}, auto_detect=false, header={header}, columns={types}, "
        f"{dialect.sql}, nullstr=$null_strings{rejects})"
    )


def _string_types(names: Iterable[str]) -> str:
    return "{" + ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in names) + "}"


def _execute(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any], resolved: ResolvedFiles
) -> list[tuple]:
    try:
        return connection.execute(sql, parameters).fetchall()
    except duckdb.PermissionException as error:
        raise external_access_error(resolved.display_name, error) from error
    except duckdb.Error as error:
        if resolved.format == "csv":
            raise InputError(csv_message(error, resolved.display_name)) from error
        reason = " ".join(str(error).split("LINE 1:")[0].split("Possible fixes")[0].split())
        raise InputError(
            f"{resolved.display_name}: not readable as {resolved.format} ({reason[:400]}). Fix the line, or set reading.on_bad_line to "
            "'skip' to skip and count malformed lines."
        ) from error
