"""Daily partitions: list them, read one, and combine several into one log."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.suspicions import ticks_per_second
from deep_interest.logs.tables import CanonicalTables
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import OnBadLine, read_tables

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class ReaderConfig:
    """How the files of a day are read.

    Attributes:
        source: declaration of the tables.
        features: feature columns.
        on_bad_line: ``reading.on_bad_line`` of the dataset.
        tie_seed: seed of the hash that orders behaviours of one user at the same time.
        repeated_impressions: whether repeated impressions are kept.
    """

    source: Source
    features: FeatureColumns
    on_bad_line: OnBadLine = "error"
    tie_seed: int = 0
    repeated_impressions: bool = False


def list_days(folder: Path) -> list[str]:
    """List the days under ``folder``, such as ``2024-03-01``; other folders and files are ignored."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and _DAY.fullmatch(path.name))


def day_number(day: str) -> int:
    """Return the number of days since 1970-01-01.

    Raises:
        InputError: the date does not exist.
    """
    try:
        return (date.fromisoformat(day) - date(1970, 1, 1)).days
    except ValueError as error:
        raise InputError(f"{day} is not a date of the calendar; rename the folder") from error


def file_sizes(folder: Path) -> dict[str, int]:
    """Return ``{file: bytes}`` of a day."""
    return {
        str(file.relative_to(folder)): file.stat().st_size
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    }


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of the files of a day, including their names."""
    digest = hashlib.sha256()
    for name in file_sizes(folder):
        digest.update(name.encode() + b"\0")
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def read_day(folder: Path, reading: ReaderConfig) -> CanonicalTables:
    """Read the canonical tables of a day.

    Raises:
        InputError: a file is missing, damaged or empty, a column is missing, or a value is invalid.
    """
    tables = read_tables(folder, reading.source, reading.features, on_bad_line=reading.on_bad_line)
    return canonical(tables, seed=reading.tie_seed, repeated_impressions=reading.repeated_impressions)


def read_days(folder: Path, days: Sequence[str], reading: ReaderConfig) -> CanonicalTables:
    """Read several days into one log.

    Args:
        folder: folder of the days.
        days: names of the days.
        reading: how their files are read.

    Raises:
        InputError: see `read_day`; or ids or times have different types on different days.
    """
    tables = []
    for day in days:
        try:
            tables.append(read_day(folder / day, reading))
        except InputError as error:
            raise InputError(f"{folder / day}: {error}") from error
    return combine_days(tables, days, reading)


def combine_days(
    tables: Sequence[CanonicalTables], days: Sequence[str], reading: ReaderConfig
) -> CanonicalTables:
    """Combine the tables of several days; the last row of an item or user takes precedence.

    Args:
        tables: tables of each day, in order.
        days: names of the days, for error messages.
        reading: how their files were read.
    """
    for name, column in (("user", "user"), ("item", "item"), ("time", "time")):
        _check_same_type(
            name,
            {day: one.shown[column] for day, one in zip(days, tables, strict=True)},
            unit=name == "time",
        )
    users = [one.users for one in tables if one.users is not None]
    whole = CanonicalTables(
        behaviors=pd.concat([one.behaviors for one in tables], ignore_index=True),
        items=_last_rows([one.items for one in tables], "item"),
        users=_last_rows(users, "user") if users else None,
        impressions=pd.concat([one.shown for one in tables], ignore_index=True),
    )
    return canonical(whole, seed=reading.tie_seed, repeated_impressions=reading.repeated_impressions)


def impressions_of(tables: CanonicalTables, days: Sequence[str]) -> CanonicalTables:
    """Select the impressions of some days; all behaviours are kept."""
    numbers = [day_number(day) for day in days]
    shown = tables.shown
    return replace(tables, impressions=shown[shown["day"].isin(numbers)].reset_index(drop=True))


def _last_rows(tables: Sequence[pd.DataFrame], key: str) -> pd.DataFrame:
    """Return the last row of each key; rows without any value are only used for keys that have no other row."""
    rows = pd.concat([table for table in tables if len(table)], ignore_index=True)
    blank = rows.drop(columns=key).isna().all(axis=1)
    described = rows.loc[~blank, key]
    rows = rows[~(blank & rows[key].isin(described))]
    return rows.drop_duplicates(key, keep="last").sort_values(key, ignore_index=True)


def _check_same_type(name: str, columns: dict[str, pd.Series], *, unit: bool) -> None:
    """Check that ids, or times, have the same type on all days."""
    kinds = {
        day: str(ticks_per_second(column)) + " ticks per second"
        if unit
        else ("numbers" if pd.api.types.is_numeric_dtype(column.dtype) else "strings")
        for day, column in columns.items()
    }
    if len(set(kinds.values())) > 1:
        first = next(iter(kinds))
        other = next(day for day, kind in kinds.items() if kind != kinds[first])
        raise InputError(
            f"impressions.{name}: {kinds[first]} on {first}, {kinds[other]} on {other}; use the same type on all days"
        )
