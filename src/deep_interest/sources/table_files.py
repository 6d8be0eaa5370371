"""The files of a declared table: found by name, pattern, folder or partition, and read by DuckDB as they are."""

import csv
import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.errors import InputError
from deep_interest.sources.declaration import TableFiles
from deep_interest.sources.downloads import explain_missing
from deep_interest.sources.raw_files import is_gzip, text_lines, verify_gzip

SOURCE_FILE = "source file"  # the column that says which file a row comes from
DATE_FORMATS = ("%Y-%m-%d", "%Y%m%d", "%Y/%m/%d")
_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".duckdb": "duckdb",
}  # fmt: skip
_DELIMITERS = ",\t;|"
_SAMPLED_LINES = 1000  # of JSON, to know the columns
_PARTITION = re.compile(r"([^=/]+)=([^/]*)")
_MISSING = ["", "nan", "NaN", "NULL", "null"]  # how CSV files write "no value"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoundFiles:
    """The files of one table.

    Attributes:
        files: in the order of their names.
        format: ``csv``, ``parquet``, ``json`` or ``duckdb``.
        state: size and time of change of each, to see whether one changes while it is read.
    """

    files: tuple[Path, ...]
    format: str
    state: tuple[tuple[int, int], ...]

    @property
    def shown(self) -> str:
        """How messages call the table's files."""
        return str(self.files[0]) if len(self.files) == 1 else f"{self.files[0]} … ({len(self.files)} files)"


def find_files(folder: Path, table: TableFiles, *, page: str | None = None) -> FoundFiles | None:
    """Find a table's files below ``folder``; None if there are none and the table is optional.

    Raises:
        InputError: no such file, only empty files, files of several formats, or two partitions for one day.
    """
    found = [(name, _matches(folder, name)) for name in table.files]
    missing = [name for name, files in found if not files]
    if missing and table.optional:
        return None
    if missing:
        raise InputError(explain_missing(folder / missing[0], page=page))
    files = sorted({file for _, some in found for file in some})
    empty = [file for file in files if file.stat().st_size == 0]
    if len(empty) == len(files):
        raise InputError(f"{empty[0]}: the file is empty (0 bytes). Write it anew or remove it.")
    for file in empty:
        _log.warning("%s is empty (0 bytes): it gives no rows.", file)
    files = [file for file in files if file not in empty]
    _check_partitions(folder, files)
    formats = {file: table.format or _format_of(file) for file in files}
    if len(set(formats.values())) > 1:
        first, other = (
            next(f for f in files if formats[f] == kind) for kind in sorted(set(formats.values()))[:2]
        )
        raise InputError(f"{first} and {other} are of different formats; one table's files must be of one")
    return FoundFiles(tuple(files), formats[files[0]], _state(files))


def check_unchanged(found: FoundFiles) -> None:
    """Raise ``InputError`` if a file has changed since it was found, as when it is still being written."""
    for file, before in zip(found.files, found.state, strict=True):
        if not file.exists() or _state([file])[0] != before:
            raise InputError(
                f"{file} changed while it was read, perhaps it was still being written; run the same command again"
            )


def columns_of(found: FoundFiles, table: TableFiles) -> list[str]:
    """The names of the columns that every file has, partition folders' keys among them."""
    first, *others = _by_columns(found, table)
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
        InputError: a file is damaged, a line is broken, or a file changed meanwhile.
    """
    for file in found.files:
        if is_gzip(file):
            verify_gzip(file)
    scans = []
    parameters: dict[str, Any] = {"missing": _MISSING} if found.format == "csv" else {}
    for number, (present, files) in enumerate(_by_columns(found, table).items()):
        parameters[f"files{number}"] = [str(file) for file in files]
        wanted = sorted(set(columns) & set(present))
        if found.format == "duckdb":
            _attach(connection, files[0], number)
        scan = _scan(found.format, table, present, wanted, files[0], number=number, skip_bad=skip_bad)
        scans.append(f"SELECT {', '.join(quoted(column) for column in [*wanted, SOURCE_FILE])} FROM {scan}")
    rejects = "DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans"
    connection.execute(rejects)
    _run(connection, f"CREATE TEMP TABLE {name} AS {' UNION ALL BY NAME '.join(scans)}", parameters, found)
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


def quoted(column: str) -> str:
    """A column's name as SQL."""
    return '"' + column.replace('"', '""') + '"'


def parse_date(text: str) -> datetime | None:
    """A day as partition folders and date columns write it, or None."""
    for pattern in DATE_FORMATS:
        try:
            return datetime.strptime(text, pattern)
        except ValueError:
            continue
    return None


def _matches(folder: Path, name: str) -> list[Path]:
    if any(letter in name for letter in "*?["):
        anchor = Path(name).anchor  # an absolute name stands for itself
        places = sorted(Path(anchor).glob(name.removeprefix(anchor)) if anchor else folder.glob(name))
    else:
        places = [folder / name] if (folder / name).exists() else []
    files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
    return [file for file in files if file.is_file() and not file.name.startswith((".", "_"))]


def _format_of(file: Path) -> str:
    suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
    if suffix not in _FORMATS:
        raise InputError(
            f"{file}: the name does not say what it is; set format to csv, parquet, json or duckdb (known: {', '.join(_FORMATS)}, "
            "each also with .gz)"
        )
    return _FORMATS[suffix]


def _state(files: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    return tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files)


def _partition_keys(file: Path) -> dict[str, str]:
    return dict(found.groups() for part in file.parts[:-1] if (found := _PARTITION.fullmatch(part)))


def _check_partitions(folder: Path, files: Sequence[Path]) -> None:
    """Two folders that stand for the same partition are a day delivered twice."""
    seen: dict[tuple, Path] = {}
    for file in files:
        keys = _partition_keys(file.relative_to(folder) if file.is_relative_to(folder) else file)
        if not keys:
            continue
        same = tuple((key, parse_date(value) or value) for key, value in sorted(keys.items()))
        other = seen.setdefault(same, file.parent)
        if other != file.parent:
            raise InputError(f"{other} and {file.parent} are two partitions for one day; remove one of them")


def _by_columns(found: FoundFiles, table: TableFiles) -> dict[tuple[str, ...], list[Path]]:
    """The files grouped by their columns, since a table's columns may come to be more, or in another order."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for file in found.files:
        own = _columns_of(file, found.format, table)
        keys = [key for key in _partition_keys(file) if key not in own]
        groups.setdefault((*own, *keys), []).append(file)
    if found.format == "duckdb" and len(found.files) > 1:
        raise InputError(f"{found.shown}: one block reads one database; make a list of blocks")
    return groups


def _columns_of(file: Path, format_: str, table: TableFiles) -> list[str]:
    if format_ == "parquet":
        try:
            return pq.read_schema(file).names
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{file}: not a whole Parquet file ({error}). Write it anew.") from error
    if format_ == "json":
        return _keys_of(file)
    if format_ == "duckdb":
        return _columns_of_database(file, table)
    if table.names:
        return list(table.names)
    header = next(csv.reader([_first_line(file)], delimiter=table.delimiter or _delimiter(file)))
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise InputError(f"{file}: column {twice[0]!r} stands in the header twice; rename one of them")
    return header


def _keys_of(file: Path) -> list[str]:
    keys: dict[str, None] = {}
    for number, line in islice(text_lines(file), _SAMPLED_LINES):
        try:
            keys |= dict.fromkeys(json.loads(line))
        except ValueError as error:
            raise InputError(f"{file}, line {number}: expected one JSON object a line ({error})") from error
    return list(keys)


def _scan(
    format_: str, table: TableFiles, present: Sequence[str], wanted: Sequence[str], file: Path,
    *, number: int, skip_bad: bool,
) -> str:  # fmt: skip
    """The table function that reads the group's files; ``file`` is one of them."""
    keys = _partition_keys(file)
    hive = "hive_partitioning=true, hive_types_autocast=false" if keys else "hive_partitioning=false"
    common = f"$files{number}, filename='{SOURCE_FILE}', {hive}"
    if format_ == "parquet":
        return f"read_parquet({common}, union_by_name=true)"
    if format_ == "duckdb":
        return f"(SELECT *, $files{number}[1] AS {quoted(SOURCE_FILE)} FROM {_in_database(f'database{number}', table)})"
    if format_ == "json":
        ignore = ", ignore_errors=true" if skip_bad else ""
        columns = _text_columns(name for name in wanted if name not in keys)
        return f"read_json({common}, format='newline_delimited', columns={columns}{ignore})"
    delimiter = table.delimiter or _delimiter(file)
    columns = _text_columns(name for name in present if name not in keys)
    return (
        f"read_csv({common}, auto_detect=false, header={'false' if table.names else 'true'}, columns={columns}, "
        f"delim={_text(delimiter)}, quote='\"', escape='\"', nullstr=$missing{', store_rejects=true' if skip_bad else ''})"
    )


def _attach(connection: duckdb.DuckDBPyConnection, file: Path, number: int) -> None:
    try:
        connection.execute(f"ATTACH {_text(str(file))} AS database{number} (READ_ONLY)")
    except duckdb.Error as error:
        raise InputError(f"{file}: not readable as a DuckDB database ({error})") from error


def _in_database(database: str, table: TableFiles) -> str:
    return ".".join([database, *(quoted(part) for part in (table.table or "").split("."))])


def _columns_of_database(file: Path, table: TableFiles) -> list[str]:
    with duckdb.connect() as connection:
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
        except duckdb.Error as error:
            raise InputError(
                f"{file}: no table {table.table} ({' '.join(str(error).split())[:200]})"
            ) from error


def _text_columns(names: Iterable[str]) -> str:
    return "{" + ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names) + "}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _delimiter(file: Path) -> str:
    first = re.sub(r'"[^"]*"', "", _first_line(file))
    return max(_DELIMITERS, key=first.count)


def _first_line(file: Path) -> str:
    for _, line in text_lines(file):
        return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    return ""


def _run(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any], found: FoundFiles
) -> list[tuple]:
    try:
        return connection.execute(sql, parameters).fetchall()
    except duckdb.Error as error:
        reason = " ".join(str(error).split("LINE 1:")[0].split("Possible fixes")[0].split())
        raise InputError(
            f"{found.shown}: not readable as {found.format} ({reason[:400]}). Mend the line, or set reading.on_bad_line to "
            "'skip': broken lines are then left out and counted."
        ) from error
