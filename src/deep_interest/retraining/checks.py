"""Data checks of a new day: fixed rules, and bounds relative to the days before it."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.contracts import validate
from deep_interest.logs.encoding import code_column
from deep_interest.logs.feature_columns import ITEM_ID, USER_ID, FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.days import ReaderConfig, content_hash, day_number, file_sizes, read_day
from deep_interest.retraining.parameters import DayBounds

logger = logging.getLogger(__name__)

Record = dict[str, Any]

_MINIMUM_TRAILING = 3  # earlier days that relative bounds need


class BadDayError(InputError):
    """Raised for days that fail the checks; they are checked again in the next run."""


def check_days(
    folder: Path,
    new: list[str],
    records: Mapping[str, Record],
    reading: ReaderConfig,
    bounds: DayBounds,
    vocabularies: FieldVocabularies | None,
) -> dict[str, Record]:
    """Check new or changed days.

    Args:
        folder: folder of the days.
        new: days to check, in order; a changed day is treated as new.
        records: records of the days used before.
        reading: how the files of a day are read.
        bounds: bounds of the checks.
        vocabularies: vocabularies of the champion, for the shares of unknown values; None for a first version.

    Returns:
        ``{day: {"hash", "files", "figures"}}`` of the new days.

    Raises:
        BadDayError: names all days that fail, with all findings.
    """
    known, findings = {day: record for day, record in records.items() if day not in new}, []
    for day in new:
        try:
            record = _record(folder / day, day, reading, vocabularies)
        except InputError as error:
            findings.append(f"{day}: {error}")
            continue
        wrong = [*_copies(day, record, known), *_violations(day, record["figures"], known, bounds)]
        findings += [f"{day}: {finding}" for finding in wrong]
        known[day] = record
    if findings:
        raise BadDayError(
            f"{folder}: {len(findings)} finding(s), no day was used:\n  "
            + "\n  ".join(findings)
            + "\nCorrect the files of the day and run again, or move its folder away to continue without it."
        )
    return {day: known[day] for day in new}


def changed_days(folder: Path, days: Iterable[str], records: Mapping[str, Record]) -> list[str]:
    """Return the days used before whose files have changed since, by their SHA-256.

    Args:
        folder: folder of the days.
        days: days that a run reads.
        records: records of the days used before.
    """
    return [day for day in days if day in records and content_hash(folder / day) != records[day]["hash"]]


def _record(folder: Path, day: str, reading: ReaderConfig, vocabularies: FieldVocabularies | None) -> Record:
    sizes = file_sizes(folder)
    tables = read_day(folder, reading)
    validate(tables)
    figures = day_statistics(tables, day, reading.features, vocabularies)
    if reading.source.uses_clicks and reading.source.has_click_times:  # a click on a later day is a behaviour
        figures["later"] = 0.0
    if file_sizes(folder) != sizes:
        raise InputError("a file changed while it was read, perhaps it was still being written")
    return {"hash": content_hash(folder), "files": sizes, "figures": figures}


def day_statistics(
    tables: CanonicalTables, day: str, features: FeatureColumns, vocabularies: FieldVocabularies | None
) -> dict[str, float]:
    """Compute the statistics of a day.

    Args:
        tables: tables of the day.
        day: name of the day.
        features: feature columns.
        vocabularies: vocabularies of the champion; without them there are no ``unknown`` statistics.

    Returns:
        ``impressions``, ``behaviors``, ``ctr``, ``repeated`` (share of impressions removed as duplicates), ``other_days``
        (impressions of another day), ``later`` (behaviours after the day), ``missing.<feature>`` and ``unknown.<feature>``
        (shares of the impressions, or of the rows of items and users).
    """
    shown, number = tables.shown, day_number(day)
    duplicates = sum(n for why, n in tables.left_out.items() if why.startswith("duplicate impressions"))
    figures = {
        "impressions": float(len(shown)),
        "behaviors": float(len(tables.behaviors)),
        "ctr": float(shown["label"].mean()),
        "repeated": duplicates / (len(shown) + duplicates),
        "other_days": float((shown["day"] != number).sum()),
        "later": float((tables.behaviors["day"] > number).sum()),
    }
    frozen = FieldVocabularies(vocabularies.fields if vocabularies else {}, frozen=True)
    for name, column in _feature_columns(tables, features):
        figures[f"missing.{name}"] = float(column.isna().mean())
        if name in frozen.fields:
            unknown = code_column(frozen, name, column, features).unknown
            figures[f"unknown.{name}"] = float((unknown & column.notna().to_numpy()).mean())
    return {name: round(value, 6) for name, value in figures.items()}


def _feature_columns(tables: CanonicalTables, features: FeatureColumns) -> Iterator[tuple[str, pd.Series]]:
    """Yield all features: item id and context by impressions, the others by the rows of items and users with any value."""
    shown = tables.shown
    yield from ((name, shown["item"]) for name in features.item if name == ITEM_ID)
    yield from ((name, shown[name]) for name in features.context)
    for table, names in ((tables.items, features.item), (tables.users, features.profile)):
        own = [name for name in names if name not in (ITEM_ID, USER_ID)]
        if own and table is not None:
            rows = table[~table[own].isna().all(axis=1)]
            yield from ((name, rows[name]) for name in own if len(rows))


def _copies(day: str, record: Record, known: Mapping[str, Record]) -> Iterator[str]:
    same = [other for other, its in known.items() if other != day and its["hash"] == record["hash"]]
    if same:
        yield f"the same files as {same[0]}"


def _violations(
    day: str, figures: Mapping[str, float], known: Mapping[str, Record], bounds: DayBounds
) -> Iterator[str]:
    """Yield a sentence for each violated bound."""
    if figures["other_days"]:
        yield f"{figures['other_days']:,.0f} of {figures['impressions']:,.0f} impressions are of another day"
    if figures["later"]:
        yield f"{figures['later']:,.0f} behaviors are later than the day"
    if figures["impressions"] < bounds.minimum_impressions:
        yield (
            f"{figures['impressions']:,.0f} impressions, expected {bounds.minimum_impressions:,} (days.minimum_impressions)"
        )
    if figures["repeated"] > bounds.repeated:
        yield f"{figures['repeated']:.1%} of the impressions are repeated, at most {bounds.repeated:.1%} (days.repeated)"
    earlier = sorted(other for other in known if other < day)[-bounds.trailing_days :]
    if len(earlier) < _MINIMUM_TRAILING:
        return
    usual = {
        name: median(found)
        for name in figures
        if len(
            found := [known[other]["figures"][name] for other in earlier if name in known[other]["figures"]]
        )
        >= _MINIMUM_TRAILING
    }
    for name, factors, form in (
        ("impressions", bounds.volume, ",.0f"),
        ("behaviors", bounds.volume, ",.0f"),
        ("ctr", bounds.ctr, ".4f"),
    ):
        low, high = (factor * usual[name] for factor in factors)
        if not low <= figures[name] <= high:
            yield (
                f"{name} {figures[name]:{form}}, expected {low:{form}} to {high:{form}} "
                f"(the {len(earlier)} days before: {usual[name]:{form}})"
            )
    for kind, rise in (("missing", bounds.missing_rise), ("unknown", bounds.unknown_rise)):
        for name in (name for name in usual if name.startswith(f"{kind}.") and name in figures):
            if figures[name] > usual[name] + rise:
                yield (
                    f"{name.split('.', 1)[1]}: {figures[name]:.1%} {kind}, the {len(earlier)} days before {usual[name]:.1%}; at most "
                    f"{rise:.1%} more (days.{kind}_rise)"
                )
