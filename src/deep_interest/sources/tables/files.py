"""The files of a declared table: found by name, pattern, folder or partition."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.sources.downloads import explain_missing
from deep_interest.sources.tables.declaration import TableFiles

DATE_FORMATS = ("%Y-%m-%d", "%Y%m%d", "%Y/%m/%d")
_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".duckdb": "duckdb",
}  # fmt: skip
_PARTITION = re.compile(r"([^=/\\?\n]+)=([^=/\\?\n]*)")  # what DuckDB takes for a partition
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


def parse_date(text: str) -> datetime | None:
    """A day as partition folders and date columns write it, or None."""
    for pattern in DATE_FORMATS:
        try:
            return datetime.strptime(text, pattern)
        except ValueError:
            continue
    return None


def _matches(folder: Path, name: str) -> list[Path]:
    if (folder / name).exists():  # a file called x[1].csv is this file, not a pattern
        places = [folder / name]
    elif any(letter in name for letter in "*?["):
        anchor = Path(name).anchor  # an absolute name stands for itself
        places = sorted(Path(anchor).glob(name.removeprefix(anchor)) if anchor else folder.glob(name))
    else:
        places = []
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


def partition_keys(file: Path) -> dict[str, str]:
    """``{key: value}`` of the partition folders that a file lies in."""
    return dict(found.groups() for part in file.parts[:-1] if (found := _PARTITION.fullmatch(part)))


def _check_partitions(folder: Path, files: Sequence[Path]) -> None:
    """Two folders that stand for the same partition are a day delivered twice."""
    seen: dict[tuple, Path] = {}
    for file in files:
        keys = partition_keys(file.relative_to(folder) if file.is_relative_to(folder) else file)
        if not keys:
            continue
        same = tuple((key, parse_date(value) or value) for key, value in sorted(keys.items()))
        other = seen.setdefault(same, file.parent)
        if other != file.parent:
            raise InputError(f"{other} and {file.parent} are two partitions for one day; remove one of them")
