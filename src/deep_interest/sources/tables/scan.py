"""Declared files into the database: DuckDB reads CSV, Parquet, JSON lines and its own databases as they are."""

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
from deep_interest.sources.database import confine, connect
from deep_interest.sources.raw_files import LINE_LIMIT, is_gzip, text_lines, verify_text
from deep_interest.sources.sql import exact_path, literal, local_path, quoted
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.files import FoundFiles, check_unchanged, partition_keys

SOURCE_FILE = "source file"  # the column that says which file a row comes from
_LINE_LIMITS = {
    "csv": 2_000_000,
    "json": LINE_LIMIT,
}  # bytes; beyond its own, DuckDB may drop a CSV line silently
_DELIMITERS = ",\t;|"
_SAMPLED_LINES = 1000  # of JSON, to know the columns
_FIRST_BYTES = {
    b"PAR1": "Parquet; end the file's name in .parquet",
    b"\xff\xfe": "UTF-16; write the file in UTF-8",
    b"\xfe\xff": "UTF-16; write the file in UTF-8",
    b"PK\x03\x04": "a .zip or a spreadsheet; write the table as CSV",
    b"\x1f\x8b": "gzip; end the file's name in .gz",
}
_MISSING = ["", "nan", "NaN", "NULL", "null"]  # how CSV files write "no value"


def columns_of(found: FoundFiles, table: TableFiles, *, skip_bad: bool = False) -> list[str]:
    """The names of the columns that every file has, partition folders' keys among them."""
    first, *others = _by_columns(found, table, skip_bad=skip_bad)
    return [name for name in first if all(name in columns for columns in others)]


def load(
    connection: duckdb.DuckDBPyConnection, name: str, found: FoundFiles, table: TableFiles, columns: Iterable[str],
    *, skip_bad: bool = False,
) -> int:  # fmt: skip
    """Read some columns of the files into the table ``name``, beside them the file each row comes from.

    CSV and JSON lines come as texts, Parquet with its own types.

    Returns:
        The number of broken lines left out (0 unless ``skip_bad``).

    Raises:
        InputError: a file is damaged, a line is broken or too long, a file changed meanwhile, or a view in a database
            reads something outside the database.
    """
    if found.format in _LINE_LIMITS:
        for file in found.files:
            verify_text(file, _LINE_LIMITS[found.format])
    scans = []
    parameters: dict[str, Any] = {"missing": _MISSING} if found.format == "csv" else {}
    for number, (present, files) in enumerate(_by_columns(found, table, skip_bad=skip_bad).items()):
        wanted = sorted(set(columns) & set(present))
        if found.format == "duckdb":
            _attach(connection, files[0], number)
        else:
            parameters[f"files{number}"] = [exact_path(file) for file in files]
        scan = _scan(found.format, table, present, wanted, files[0], number=number, skip_bad=skip_bad)
        scans.append(f"SELECT {', '.join(quoted(column) for column in [*wanted, SOURCE_FILE])} FROM {scan}")
    rejects = "DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans"
    connection.execute(rejects)
    sql = f"CREATE TEMP TABLE {name} AS {' UNION ALL BY NAME '.join(scans)}"
    _run(connection, sql, parameters, found)
    if found.format == "duckdb":
        connection.execute("DETACH database0")
    check_unchanged(found)
    if not (skip_bad and found.format == "csv"):
        return 0
    broken = first_row(connection, "SELECT count(DISTINCT (file_id, line)) FROM reject_errors")[0]
    connection.execute(rejects)
    return broken


def first_row(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any] | None = None
) -> tuple | None:
    """The first row of a query, fetched to its end; None if it has none."""
    rows = connection.execute(sql, parameters or {}).fetchall()
    return rows[0] if rows else None


def _by_columns(found: FoundFiles, table: TableFiles, *, skip_bad: bool) -> dict[tuple[str, ...], list[Path]]:
    """The files grouped by their columns, since a table's columns may come to be more, or in another order."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for file in found.files:
        own = _columns_of(file, found.format, table, skip_bad=skip_bad)
        keys = [key for key in partition_keys(file) if key not in own]
        groups.setdefault((*own, *keys), []).append(file)
    if found.format == "duckdb" and len(found.files) > 1:
        raise InputError(f"{found.shown}: one block reads one database; make a list of blocks")
    return groups


def _columns_of(file: Path, format_: str, table: TableFiles, *, skip_bad: bool) -> list[str]:
    if format_ == "parquet":
        try:
            return pq.read_schema(file).names
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{file}: not a whole Parquet file ({error}). Write it anew.") from error
    if format_ == "json":
        return _keys_of(file, skip_bad=skip_bad)
    if format_ == "duckdb":
        return _columns_of_database(file, table)
    if table.names:
        return list(table.names)
    if not is_gzip(file):
        _refuse_what_is_no_csv(file)
    try:
        header = next(csv.reader([_first_line(file)], delimiter=table.delimiter or _delimiter(file)))
    except csv.Error as error:  # a name of more than 128 KiB, or a carriage return within the line
        raise InputError(f"{file}, line 1: not a header of a CSV file ({error})") from error
    header = [name or f"column {number} without a name" for number, name in enumerate(header, start=1)]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise InputError(f"{file}: column {twice[0]!r} stands in the header twice; rename one of them")
    return header


def _refuse_what_is_no_csv(file: Path) -> None:
    """Other files have first bytes of their own; DuckDB would call them a table of strange columns."""
    with file.open("rb") as stream:
        begin = stream.read(4)
    for first, what in _FIRST_BYTES.items():
        if begin.startswith(first):
            raise InputError(f"{file}: expected CSV in UTF-8, found {what}")


def _keys_of(file: Path, *, skip_bad: bool) -> list[str]:
    keys: dict[str, None] = {}
    for number, line in islice(text_lines(file), _SAMPLED_LINES):
        try:
            entry = json.loads(line)
            found = "" if isinstance(entry, dict) else f"a JSON {type(entry).__name__}"
        except (ValueError, RecursionError) as error:  # RecursionError: thousands of nested brackets
            entry, found = {}, str(error)
        if not found:
            keys |= dict.fromkeys(entry)
        elif not skip_bad:
            raise InputError(f"{file}, line {number}: expected one JSON object a line, found {found}")
    return list(keys)


def _scan(
    format_: str, table: TableFiles, present: Sequence[str], wanted: Sequence[str], file: Path,
    *, number: int, skip_bad: bool,
) -> str:  # fmt: skip
    """The table function that reads the group's files; ``file`` is one of them."""
    keys = partition_keys(file)
    hive = "hive_partitioning=true, hive_types_autocast=false" if keys else "hive_partitioning=false"
    common = f"$files{number}, filename='{SOURCE_FILE}', {hive}"
    if format_ == "parquet":
        return f"read_parquet({common}, union_by_name=true)"
    if format_ == "duckdb":
        return f"(SELECT *, {literal(str(file))} AS {quoted(SOURCE_FILE)} FROM {_in_database(f'database{number}', table)})"
    if format_ == "json":
        ignore = ", ignore_errors=true" if skip_bad else ""
        columns = _text_columns(name for name in wanted if name not in keys)
        return f"read_json({common}, format='newline_delimited', columns={columns}{ignore})"
    delimiter = table.delimiter or _delimiter(file)
    columns = _text_columns(name for name in present if name not in keys)
    return (
        f"read_csv({common}, auto_detect=false, header={'false' if table.names else 'true'}, columns={columns}, "
        f"delim={literal(delimiter)}, quote='\"', escape='\"', nullstr=$missing{', store_rejects=true' if skip_bad else ''})"
    )


def _attach(connection: duckdb.DuckDBPyConnection, file: Path, number: int) -> None:
    try:
        connection.execute(f"ATTACH {literal(local_path(file))} AS database{number} (READ_ONLY)")
    except duckdb.Error as error:
        raise InputError(f"{file}: not readable as a DuckDB database ({error})") from error


def _in_database(database: str, table: TableFiles) -> str:
    return ".".join([database, *(quoted(part) for part in (table.table or "").split("."))])


def _columns_of_database(file: Path, table: TableFiles) -> list[str]:
    with connect() as connection:
        confine(connection, [file])
        _attach(connection, file, 0)
        if table.table is None:
            found = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'database0' ORDER BY 1"
            names = [name for (name,) in connection.execute(found).fetchall()]
            raise InputError(f"{file}: say under `table` which table; it has {', '.join(names)}")
        try:
            return [
                row[0]
                for row in connection.execute(f"DESCRIBE {_in_database('database0', table)}").fetchall()
            ]
        except duckdb.PermissionException as error:
            raise _outside(f"{file}, {table.table}", error) from error
        except duckdb.Error as error:
            raise InputError(
                f"{file}: table or view {table.table} not found or not readable ({' '.join(str(error).split())[:200]})"
            ) from error


def _outside(shown: str, error: duckdb.Error) -> InputError:
    return InputError(
        f"{shown}: the view reads something outside the database ({' '.join(str(error).split())[:200]}), which is not "
        "allowed. Store its rows in the database (CREATE TABLE … AS FROM the view), or declare the files themselves."
    )


def _text_columns(names: Iterable[str]) -> str:
    return "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names) + "}"


def _delimiter(file: Path) -> str:
    first = re.sub(r'"[^"]*"', "", _first_line(file))
    return max(_DELIMITERS, key=first.count)


def _first_line(file: Path) -> str:
    for _, line in text_lines(file, _LINE_LIMITS["csv"]):
        return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    return ""


def _run(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any], found: FoundFiles
) -> list[tuple]:
    try:
        return connection.execute(sql, parameters).fetchall()
    except duckdb.PermissionException as error:
        raise _outside(found.shown, error) from error
    except duckdb.Error as error:
        reason = " ".join(str(error).split("LINE 1:")[0].split("Possible fixes")[0].split())
        if found.format == "csv" and "unicode" in reason.lower():
            raise InputError(
                f"{found.shown}: a text is not UTF-8 ({reason[:200]}). Write the file in UTF-8, e.g. by iconv -f LATIN1 -t UTF-8."
            ) from error
        raise InputError(
            f"{found.shown}: not readable as {found.format} ({reason[:400]}). Mend the line, or set reading.on_bad_line to "
            "'skip': broken lines are then left out and counted."
        ) from error
