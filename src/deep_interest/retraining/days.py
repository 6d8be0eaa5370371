"""Daily partitions: which days there are, what is in them, and several of them as one log."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.suspicions import ticks_per_second
from deep_interest.logs.tables import CanonicalTables
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import OnBadLine, read_tables

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Reading:
    """How a day's files are read.

    Attributes:
        source: its tables.
        features: the feature columns that are wanted.
        on_bad_line: as of ``reading`` in the dataset's block.
        tie_seed: of the hash that orders behaviours of one user and time.
        repeated_impressions: the same impression again counts again.
    """

    source: Source
    features: FeatureColumns
    on_bad_line: OnBadLine = "error"
    tie_seed: int = 0
    repeated_impressions: bool = False


def list_days(folder: Path) -> list[str]:
    """The days below ``folder`` by their names, ``2024-03-01``; what is called otherwise is none."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and _DAY.fullmatch(path.name))


def day_number(day: str) -> int:
    """Days since 1970-01-01.

    Raises:
        InputError: there is no such day.
    """
    try:
        return (date.fromisoformat(day) - date(1970, 1, 1)).days
    except ValueError as error:
        raise InputError(f"{day}: the calendar has no such day; rename the folder") from error


def file_sizes(folder: Path) -> dict[str, int]:
    """``{file: bytes}`` of a day."""
    return {
        str(file.relative_to(folder)): file.stat().st_size
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    }


def content_hash(folder: Path) -> str:
    """SHA-256 of a day's files, names included."""
    digest = hashlib.sha256()
    for name in file_sizes(folder):
        digest.update(name.encode() + b"\0")
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def read_day(folder: Path, reading: Reading) -> CanonicalTables:
    """A day's canonical tables.

    Raises:
        InputError: a file is missing, damaged or empty, a column is missing, or a value is not what it must be.
    """
    tables = read_tables(folder, reading.source, reading.features, on_bad_line=reading.on_bad_line)
    return canonical(tables, seed=reading.tie_seed, repeated_impressions=reading.repeated_impressions)


def read_days(folder: Path, days: Sequence[str], reading: Reading) -> CanonicalTables:
    """Several days as one log.

    Args:
        folder: of the days.
        days: their names.
        reading: how.

    Raises:
        InputError: as of `read_day`, with the day's name; or the days' ids or times are of different kinds.
    """
    tables = []
    for day in days:
        try:
            tables.append(read_day(folder / day, reading))
        except InputError as error:
            raise InputError(f"{folder / day}: {error}") from error
    return joined(tables, days, reading)


def joined(tables: Sequence[CanonicalTables], days: Sequence[str], reading: Reading) -> CanonicalTables:
    """The tables of several days as one log; of an item or user that stands in several, the last day's row counts.

    Args:
        tables: of each day, in order.
        days: their names, for messages.
        reading: how they were read.
    """
    for name, column in (("user", "user"), ("item", "item"), ("time", "time")):
        _check_alike(
            name,
            {day: one.impressions[column] for day, one in zip(days, tables, strict=True)},
            unit=name == "time",
        )
    users = [one.users for one in tables if one.users is not None]
    whole = CanonicalTables(
        behaviors=pd.concat([one.behaviors for one in tables], ignore_index=True),
        items=_last_rows([one.items for one in tables], "item"),
        users=_last_rows(users, "user") if users else None,
        impressions=pd.concat([one.impressions for one in tables], ignore_index=True),
    )
    return canonical(whole, seed=reading.tie_seed, repeated_impressions=reading.repeated_impressions)


def impressions_of(tables: CanonicalTables, days: Sequence[str]) -> CanonicalTables:
    """The tables with the impressions of some days alone; histories keep all behaviours."""
    numbers = [day_number(day) for day in days]
    shown = tables.impressions
    return replace(tables, impressions=shown[shown["day"].isin(numbers)].reset_index(drop=True))


def _last_rows(tables: Sequence[pd.DataFrame], key: str) -> pd.DataFrame:
    """The last row of each key that says anything beside it."""
    whole = pd.concat([table for table in tables if len(table)], ignore_index=True)
    blank = whole.drop(columns=key).isna().all(axis=1)
    told = whole.loc[~blank, key]
    whole = whole[~(blank & whole[key].isin(told))]
    return whole.drop_duplicates(key, keep="last").sort_values(key, ignore_index=True)


def _check_alike(name: str, columns: dict[str, pd.Series], *, unit: bool) -> None:
    """Ids and times of all days are of one kind."""
    kinds = {
        day: str(ticks_per_second(column)) + " ticks a second"
        if unit
        else ("numbers" if pd.api.types.is_numeric_dtype(column.dtype) else "texts")
        for day, column in columns.items()
    }
    if len(set(kinds.values())) > 1:
        first = next(iter(kinds))
        other = next(day for day, kind in kinds.items() if kind != kinds[first])
        raise InputError(
            f"impressions.{name}: {kinds[first]} on {first}, {kinds[other]} on {other}; write the days alike"
        )
