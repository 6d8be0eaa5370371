"""Resolve the files of a declared table: a file, a glob pattern, a folder or partition folders."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.sources.downloads import missing_file_message
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.hints import missing_file

DATE_FORMATS = ("%Y-%m-%d", "%Y%m%d", "%Y/%m/%d")
_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".dat": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".duckdb": "duckdb",
    ".inter": "csv", ".item": "csv", ".user": "csv",
}  # fmt: skip
_OPTIONS = {
    "names": ("csv",), "delimiter": ("csv",), "quote": ("csv",), "encoding": ("csv", "json"), "table": ("duckdb",),
}  # fmt: skip
_UNREADABLE = {
    ".zip": "archives are not read; unpack it and name the files in it",
    ".xlsx": "spreadsheets are not read; save each sheet as CSV",
    ".xls": "spreadsheets are not read; save each sheet as CSV",
}
_PARTITION = re.compile(r"([^=/\\?\n]+)=([^=/\\?\n]*)")  # what DuckDB recognises as a partition folder
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResolvedFiles:
    """Existing files of one table.

    Attributes:
        files: paths to read, in alphabetical order of the originals: the originals, or copies in UTF-8.
        originals: paths of the user's files.
        format: ``csv``, ``parquet``, ``json`` or ``duckdb``.
        states: size (bytes) and modification time (ns) of each original, to detect changes during reading.
    """

    files: tuple[Path, ...]
    originals: tuple[Path, ...]
    format: str
    states: tuple[tuple[int, int], ...]

    @property
    def display_name(self) -> str:
        """Name of the files for messages."""
        first, count = self.originals[0], len(self.originals)
        return str(first) if count == 1 else f"{first} … ({count} files)"


def resolve_files(folder: Path, table: TableFiles, *, page: str | None = None) -> ResolvedFiles | None:
    """Find the files of a table below ``folder``; return None if an optional table has no files.

    Args:
        folder: folder that relative file names refer to.
        table: declaration of the table.
        page: web page of the data, for the message about a missing file.

    Raises:
        InputError: a file is missing, all files are empty, the files have different formats, or two partition folders
            have the same day, or an option does not apply to their format.
    """
    matches = [(name, _match(folder, name)) for name in table.files]
    missing = [name for name, files in matches if not files]
    if missing and table.optional:
        return None
    if missing:
        message = missing_file_message(folder / missing[0], page=page)
        raise InputError(f"{message} {missing_file(folder, missing[0])}")
    files = sorted({file for _, matching_files in matches for file in matching_files})
    empty = [file for file in files if file.stat().st_size == 0]
    if len(empty) == len(files):
        raise InputError(f"{empty[0]}: the file is empty (0 bytes). Write it again or remove it.")
    for file in empty:
        _log.warning("%s: the file is empty (0 bytes) and contributes no rows.", file)
    files = [file for file in files if file not in empty]
    _check_partitions(folder, files)
    formats = {file: table.format or _infer_format(file) for file in files}
    if len(set(formats.values())) > 1:
        first, other = (
            next(f for f in files if formats[f] == kind) for kind in sorted(set(formats.values()))[:2]
        )
        raise InputError(
            f"{first} and {other} have different formats; all files of a table must have the same format"
        )
    format_ = formats[files[0]]
    _check_options(files[0], table, format_)
    return ResolvedFiles(tuple(files), tuple(files), format_, _file_states(files))


def check_unchanged(resolved: ResolvedFiles) -> None:
    """Raise ``InputError`` if a file has changed since it was resolved, for example if it is still being written."""
    for file, state in zip(resolved.originals, resolved.states, strict=True):
        if not file.exists() or _file_states([file])[0] != state:
            raise InputError(
                f"{file}: the file changed while it was being read, possibly because it is still being written; run "
                "the same command again"
            )


def parse_date(text: str) -> datetime | None:
    """Parse a date in one of `DATE_FORMATS`; return None if it has another format."""
    for pattern in DATE_FORMATS:
        try:
            return datetime.strptime(text, pattern)
        except ValueError:
            continue
    return None


def partition_keys(file: Path) -> dict[str, str]:
    """Return ``{key: value}`` of the partition folders that contain a file."""
    return {match[1]: match[2] for part in file.parts[:-1] if (match := _PARTITION.fullmatch(part))}


def _match(folder: Path, name: str) -> list[Path]:
    if (folder / name).exists():  # a file named x[1].csv is that file, not a pattern
        paths = [folder / name]
    elif any(letter in name for letter in "*?["):
        anchor = Path(name).anchor  # an absolute path is not relative to the folder
        paths = sorted(Path(anchor).glob(name.removeprefix(anchor)) if anchor else folder.glob(name))
    else:
        paths = []
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return [file for file in files if file.is_file() and not file.name.startswith((".", "_"))]


def _infer_format(file: Path) -> str:
    suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
    if suffix in _UNREADABLE:
        raise InputError(f"{file}: {_UNREADABLE[suffix]}")
    if suffix not in _FORMATS:
        raise InputError(
            f"{file}: unknown file name extension {suffix!r}; set format to csv, parquet, json or duckdb, or use one "
            f"of {', '.join(_FORMATS)} (each also with .gz)"
        )
    return _FORMATS[suffix]


def _check_options(file: Path, table: TableFiles, format_: str) -> None:
    """Reject options that have no effect on files of this format."""
    for option, formats in _OPTIONS.items():
        if option in table.model_fields_set and format_ not in formats:
            raise InputError(
                f"{file}: the option {option} applies to {' and '.join(formats)} files, but this file is read as {format_}; remove "
                f"{option}, or set format"
            )


def _file_states(files: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    return tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files)


def _check_partitions(folder: Path, files: Sequence[Path]) -> None:
    """Reject two folders for the same partition: a day that was delivered twice."""
    folders: dict[tuple, Path] = {}
    for file in files:
        keys = partition_keys(file.relative_to(folder) if file.is_relative_to(folder) else file)
        if not keys:
            continue
        partition = tuple((key, parse_date(value) or value) for key, value in sorted(keys.items()))
        first_folder = folders.setdefault(partition, file.parent)
        if first_folder != file.parent:
            raise InputError(
                f"{first_folder} and {file.parent} are two partitions for the same day; remove one of them"
            )
