"""Load declared files into DuckDB: CSV, Parquet, JSON lines and DuckDB databases."""

import csv
import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.errors import InputError
from deep_interest.sources.database import connect, restrict_to_files
from deep_interest.sources.raw_files import LINE_LIMIT, is_gzip, text_lines, verify_text
from deep_interest.sources.sql import exact_path, local_path, quote_identifier, quote_literal
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.files import ResolvedFiles, check_unchanged, partition_keys

SOURCE_FILE = "source file"  # column with the file that a row comes from
# bytes; DuckDB may silently drop a CSV line that is longer than its own limit
_LINE_LIMITS = {"csv": 2_000_000, "json": LINE_LIMIT}
_DELIMITERS = ",\t;|"
_SAMPLED_LINES = 1000  # JSON lines that are read to find the keys
_SIGNATURES = {
    b"PAR1": "Parquet; end the file's name in .parquet",
    b"\xff\xfe": "UTF-16; write the file in UTF-8",
    b"\xfe\xff": "UTF-16; write the file in UTF-8",
    b"PK\x03\x04": "a .zip or a spreadsheet; write the table as CSV",
    b"\x1f\x8b": "gzip; end the file's name in .gz",
}
_NULL_STRINGS = ["", "nan", "NaN", "NULL", "null"]  # strings in CSV files that mean a missing value


def common_columns(resolved: ResolvedFiles, table: TableFiles, *, skip_bad: bool = False) -> list[str]:
    """Return the columns that all files have, including the keys of partition folders."""
    first, *others = _group_by_columns(resolved, table, skip_bad=skip_bad)
    return [name for name in first if all(name in columns for columns in others)]


def load_files(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    resolved: ResolvedFiles,
    table: TableFiles,
    columns: Iterable[str],
    *,
    skip_bad: bool = False,
) -> int:
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
        Number of malformed CSV lines skipped.

    Raises:
        InputError: a file is damaged or changed during reading, a line is malformed or too long, or a view in a
            database reads something outside the database.
    """
    if resolved.format in _LINE_LIMITS:
        for file in resolved.files:
            verify_text(file, _LINE_LIMITS[resolved.format])
    scans = []
    parameters: dict[str, Any] = {"null_strings": _NULL_STRINGS} if resolved.format == "csv" else {}
    groups = _group_by_columns(resolved, table, skip_bad=skip_bad)
    for group, (group_columns, files) in enumerate(groups.items()):
        selected = sorted(set(columns) & set(group_columns))
        if resolved.format == "duckdb":
            _attach(connection, files[0], group)
        else:
            parameters[f"files{group}"] = [exact_path(file) for file in files]
        scan = _scan_sql(
            resolved.format, table, group_columns, selected, files[0], group=group, skip_bad=skip_bad
        )
        scans.append(f"SELECT {', '.join(quote_identifier(c) for c in [*selected, SOURCE_FILE])} FROM {scan}")
    drop_rejects = "DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans"
    connection.execute(drop_rejects)
    sql = f"CREATE TEMP TABLE {name} AS {' UNION ALL BY NAME '.join(scans)}"
    _execute(connection, sql, parameters, resolved)
    if resolved.format == "duckdb":
        connection.execute("DETACH database0")
    check_unchanged(resolved)
    if not (skip_bad and resolved.format == "csv"):
        return 0
    skipped = fetch_aggregates(connection, "SELECT count(DISTINCT (file_id, line)) FROM reject_errors")[0]
    connection.execute(drop_rejects)
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


def _group_by_columns(
    resolved: ResolvedFiles, table: TableFiles, *, skip_bad: bool
) -> dict[tuple[str, ...], list[Path]]:
    """Group the files by their columns, because a table may gain or reorder columns over time."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for file in resolved.files:
        columns = _read_columns(file, resolved.format, table, skip_bad=skip_bad)
        keys = [key for key in partition_keys(file) if key not in columns]
        groups.setdefault((*columns, *keys), []).append(file)
    if resolved.format == "duckdb" and len(resolved.files) > 1:
        raise InputError(
            f"{resolved.display_name}: a block can read one database, found {len(resolved.files)}; declare a list with "
            "one block per database"
        )
    return groups


def _read_columns(file: Path, format_: str, table: TableFiles, *, skip_bad: bool) -> list[str]:
    if format_ == "parquet":
        try:
            return pq.read_schema(file).names
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(
                f"{file}: not a valid Parquet file ({error}). Check that it is complete, or write it again."
            ) from error
    if format_ == "json":
        return _read_json_keys(file, skip_bad=skip_bad)
    if format_ == "duckdb":
        return _read_database_columns(file, table)
    if table.names:
        return list(table.names)
    if not is_gzip(file):
        _reject_other_formats(file)
    try:
        header = next(csv.reader([_first_line(file)], delimiter=table.delimiter or _detect_delimiter(file)))
    except csv.Error as error:  # a name of more than 128 KiB, or a carriage return within the line
        raise InputError(f"{file}, line 1: not a valid CSV header ({error})") from error
    header = [name or f"column {index} without a name" for index, name in enumerate(header, start=1)]
    duplicates = [name for name in header if header.count(name) > 1]
    if duplicates:
        raise InputError(
            f"{file}, line 1: column {duplicates[0]!r} occurs twice in the header; rename one of them"
        )
    return header


def _reject_other_formats(file: Path) -> None:
    """Raise an error for a file of another format, which DuckDB would read as a CSV with strange columns."""
    with file.open("rb") as stream:
        first_bytes = stream.read(4)
    for signature, description in _SIGNATURES.items():
        if first_bytes.startswith(signature):
            raise InputError(f"{file}: expected CSV in UTF-8, found {description}")


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
            raise InputError(
                f"{file}, line {line_number}: expected one JSON object per line, found {problem}. Fix the line, or set "
                "reading.on_bad_line to 'skip' to skip and count such lines."
            )
    return list(keys)


def _scan_sql(
    format_: str,
    table: TableFiles,
    columns: Sequence[str],
    selected: Sequence[str],
    file: Path,
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
        relation = _qualified_name(f"database{group}", table)
        return f"(SELECT *, {path} AS {quote_identifier(SOURCE_FILE)} FROM {relation})"
    if format_ == "json":
        ignore = ", ignore_errors=true" if skip_bad else ""
        types = _string_types(name for name in selected if name not in keys)
        return f"read_json({common}, format='newline_delimited', columns={types}{ignore})"
    delimiter = table.delimiter or _detect_delimiter(file)
    types = _string_types(name for name in columns if name not in keys)
    header, rejects = ("false" if table.names else "true"), (", store_rejects=true" if skip_bad else "")
    return (
        f"read_csv({common}, auto_detect=false, header={header}, columns={types}, "
        f"delim={quote_literal(delimiter)}, quote='\"', escape='\"', nullstr=$null_strings{rejects})"
    )


def _attach(connection: duckdb.DuckDBPyConnection, file: Path, index: int) -> None:
    try:
        connection.execute(f"ATTACH {quote_literal(local_path(file))} AS database{index} (READ_ONLY)")
    except duckdb.Error as error:
        raise InputError(f"{file}: not readable as a DuckDB database ({error})") from error


def _qualified_name(database: str, table: TableFiles) -> str:
    return ".".join([database, *(quote_identifier(part) for part in (table.table or "").split("."))])


def _read_database_columns(file: Path, table: TableFiles) -> list[str]:
    with connect() as connection:
        restrict_to_files(connection, [file])
        _attach(connection, file, 0)
        if table.table is None:
            query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'database0' ORDER BY 1"
            names = [name for (name,) in connection.execute(query).fetchall()]
            raise InputError(f"{file}: set `table` to a table of the database; it has {', '.join(names)}")
        try:
            relation = _qualified_name("database0", table)
            return [row[0] for row in connection.execute(f"DESCRIBE {relation}").fetchall()]
        except duckdb.PermissionException as error:
            raise _external_access_error(f"{file}, {table.table}", error) from error
        except duckdb.Error as error:
            raise InputError(
                f"{file}: table or view {table.table} not found or not readable ({' '.join(str(error).split())[:200]})"
            ) from error


def _external_access_error(display_name: str, error: duckdb.Error) -> InputError:
    return InputError(
        f"{display_name}: the view reads something outside the database ({' '.join(str(error).split())[:200]}), which "
        "is not allowed. Store its rows in the database (CREATE TABLE … AS FROM the view), or declare the files "
        "themselves."
    )


def _string_types(names: Iterable[str]) -> str:
    return "{" + ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in names) + "}"


def _detect_delimiter(file: Path) -> str:
    unquoted = re.sub(r'"[^"]*"', "", _first_line(file))
    return max(_DELIMITERS, key=unquoted.count)


def _first_line(file: Path) -> str:
    for _, line in text_lines(file, _LINE_LIMITS["csv"]):
        return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    return ""


def _execute(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any], resolved: ResolvedFiles
) -> list[tuple]:
    try:
        return connection.execute(sql, parameters).fetchall()
    except duckdb.PermissionException as error:
        raise _external_access_error(resolved.display_name, error) from error
    except duckdb.Error as error:
        reason = " ".join(str(error).split("LINE 1:")[0].split("Possible fixes")[0].split())
        if resolved.format == "csv" and "unicode" in reason.lower():
            raise InputError(
                f"{resolved.display_name}: the file is not encoded in UTF-8 ({reason[:200]}). Convert it, for example "
                "with iconv -f LATIN1 -t UTF-8."
            ) from error
        raise InputError(
            f"{resolved.display_name}: not readable as {resolved.format} ({reason[:400]}). Fix the line, or set "
            "reading.on_bad_line to 'skip' to skip and count malformed lines."
        ) from error
