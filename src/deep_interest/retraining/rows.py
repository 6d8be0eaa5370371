"""Which ids have a row in the embedding tables of a version: admission by count, eviction by age.

A run codes its log with the vocabularies of the champion, extended by the ids of its training days: the *codes of the run*. Both versions
that it compares start from these codes. The champion knows the first ones, and treats later ones as unknown. The challenger maps each code
to a row of its tables, 0 for "unknown", where `retraining.rows` has a rule for the field. Its vocabulary lists the ids with a row only, in
the order of the rows; service, batch scoring and export need nothing else.

Counts are computed from the log in each run and not stored: whether an id has a row depends on the log, the rules and the champion, and not on
how often a run was killed, repeated or refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID, USER_ID, FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.retraining.days import day_number
from deep_interest.retraining.parameters import RowRule
from deep_interest.training.content import Data


@dataclass(frozen=True)
class FieldRows:
    """The rows of one field's table.

    Attributes:
        rows: ``(codes,)`` int32 row of each code of the run; 0 for ids without a row.
        kept: ``(k,)`` int64 rows of the champion, in the order of the new rows, which begin with them; the first one is 0, "unknown".
        admitted: number of ids with a new row; it starts with new parameters.
        evicted: number of ids that had a row in the champion and lose it.
        waiting: number of ids of the training days that have not been seen often enough.
    """

    rows: np.ndarray
    kept: np.ndarray
    admitted: int
    evicted: int
    waiting: int

    @property
    def size(self) -> int:
        """Number of rows, including that of unknown ids."""
        return len(self.kept) + self.admitted


Rows = Mapping[str, FieldRows]
"""Rows by field; a field without a rule has a row for each code."""
NO_ROWS: Rows = MappingProxyType({})


class Before(NamedTuple):
    """What the champion knows.

    Attributes:
        sizes: ``{field: rows}`` of its tables.
        held_out: the day that it was compared on: it has seen the days before.
    """

    sizes: Mapping[str, int]
    held_out: str


def check_rules(
    rules: Mapping[str, RowRule], features: FeatureColumns, *, history_days: int | None = None
) -> None:
    """Check that each rule is for a field of items or users with one category per row, and that a run reads enough days for it.

    Args:
        rules: rules by field.
        features: feature columns.
        history_days: number of days that a run reads; all if None.

    Raises:
        InputError: names the field and those that can have a rule, or the largest possible age.
    """
    others = {*features.numeric, *features.multi_hot}
    possible = [name for name in (*features.item, *features.profile) if name not in others]
    for name, rule in rules.items():
        if name not in possible:
            raise InputError(
                f"retraining.rows: {name} is not a field of items or users with one category per row; use one of {', '.join(possible)}"
            )
        if history_days is not None and (rule.max_age_days or 0) > history_days:
            raise InputError(
                f"retraining.rows: max_age_days of {name} is {rule.max_age_days}, but retraining.history_days is {history_days}, so a run does "
                f"not read when an id was last seen; set max_age_days to at most {history_days}, or raise history_days"
            )


def check_days_exist(
    rules: Mapping[str, RowRule], available: Iterable[str], used: Iterable[str], held_out: str
) -> None:
    """Check that the days of the last ``max_age_days`` are all there: without them, ids would lose their rows too early.

    Args:
        rules: rules by field.
        available: days in the folder.
        used: days that earlier runs have used.
        held_out: the held-out day.

    Raises:
        InputError: a day that an earlier run has used is missing.
    """
    oldest = max((rule.max_age_days or 0 for rule in rules.values()), default=0)
    first = day_number(held_out) - oldest
    if missing := sorted(
        day for day in set(used) - set(available) if first <= day_number(day) < day_number(held_out)
    ):
        raise InputError(
            f"retraining.rows: max_age_days is {oldest}, but the folders of {', '.join(missing)} are missing, which earlier runs have used; "
            "restore them, or set a smaller max_age_days"
        )


def assign_rows(
    tables: CanonicalTables,
    features: FeatureColumns,
    rules: Mapping[str, RowRule],
    vocabularies: FieldVocabularies,
    *,
    held_out: str,
    before: Before | None,
) -> dict[str, FieldRows]:
    """Decide which ids have a row in the challenger's tables.

    An id is seen in each impression and each behaviour before the held-out day. One that is not seen on ``max_age_days`` days in a row loses
    its row, and its count starts again; an id of the champion keeps its row until then. Any other id gets a row once it has been seen
    ``min_count`` times.

    Args:
        tables: tables of all days that the run reads.
        features: feature columns.
        rules: rules by field.
        vocabularies: vocabularies in the codes of the run: those of the champion, extended.
        held_out: the held-out day.
        before: what the champion knows; None for a first version.

    Returns:
        Rows of the fields with rules.
    """
    if not rules:
        return {}
    today = day_number(held_out)
    seen_items, seen_users = (_seen(tables, key, today) for key in ("item", "user"))
    found = {}
    for name, rule in rules.items():
        of_item = name in features.item
        ids, days = seen_items if of_item else seen_users
        codes = _codes(vocabularies, name, ids, tables.items if of_item else tables.users)
        size = len(vocabularies.fields[name].vocabulary)
        counts = count_seen(codes, days, size, rule.max_age_days)
        old = 1 if before is None else before.sizes.get(name, 1)
        until = today if before is None else day_number(before.held_out)
        found[name] = _assign(counts, rule, today, old, until)
    return found


class Counts(NamedTuple):
    """How often and when each code was seen since the last time that it was not seen for too long, ``(codes,)`` each.

    Attributes:
        events: number of events; 0 for a code that was never seen.
        first, last: days of the first and the last of them, since 1970-01-01.
    """

    events: np.ndarray
    first: np.ndarray
    last: np.ndarray


def count_seen(codes: np.ndarray, days: np.ndarray, size: int, max_age_days: int | None) -> Counts:
    """Count the events of each code since its last gap of more than ``max_age_days`` days.

    Args:
        codes: ``(N,)`` code of each event; code 0 is not counted.
        days: ``(N,)`` day of each event, since 1970-01-01.
        size: number of codes.
        max_age_days: largest number of days between two events without a gap; None for any.
    """
    found = Counts(*(np.zeros(size, np.int64) for _ in range(3)))
    codes, days = codes[codes > 0].astype(np.int64), days[codes > 0].astype(np.int64)
    if not len(codes):
        return found
    begin, span = days.min(), days.max() - days.min() + 1
    pairs, number = np.unique(codes * span + (days - begin), return_counts=True)
    code, day = pairs // span, pairs % span + begin
    is_new_code = np.concatenate([[True], code[1:] != code[:-1]])
    starts = is_new_code.copy()
    if max_age_days is not None:
        starts[1:] |= day[1:] - day[:-1] > max_age_days
    begins = np.flatnonzero(starts)
    ends = np.concatenate([begins[1:], [len(code)]])
    newest = np.concatenate([is_new_code[begins[1:]], [True]])  # the last series of events of its code
    of = code[begins[newest]]
    found.events[of] = np.add.reduceat(number, begins)[newest]
    found.first[of], found.last[of] = day[begins[newest]], day[ends[newest] - 1]
    return found


def _assign(counts: Counts, rule: RowRule, today: int, old: int, until: int) -> FieldRows:
    code = np.arange(len(counts.events))
    known = (code > 0) & (code < old)
    stays, recent = known, counts.events > 0
    if rule.max_age_days is not None:
        recent &= counts.last >= today - rule.max_age_days
        stays = known & recent & (counts.first < until)
    new = (code > 0) & ~stays & recent
    admitted = new & (counts.events >= rule.min_count)
    kept = np.flatnonzero(stays | (code == 0))
    rows = np.zeros(len(code), np.int32)
    rows[kept] = np.arange(len(kept))
    rows[admitted] = len(kept) + np.arange(admitted.sum())
    return FieldRows(
        rows, kept, int(admitted.sum()), int((known & ~stays).sum()), int((new & ~admitted).sum())
    )


def _seen(tables: CanonicalTables, key: str, today: int) -> tuple[pd.Series, np.ndarray]:
    """Return the item or the user, and the day, of each event before a day."""
    events = pd.concat(
        [table.loc[table["day"] < today, [key, "day"]] for table in (tables.behaviors, tables.shown)],
        ignore_index=True,
    )
    return events[key], events["day"].to_numpy(np.int64)


def _codes(
    vocabularies: FieldVocabularies, name: str, ids: pd.Series, table: pd.DataFrame | None
) -> np.ndarray:
    """Return the code of a field in each event, ``(N,)`` int32: of the id, or of a column of its table."""
    field = vocabularies.fields[name]
    if name in (ITEM_ID, USER_ID):
        return field.encode(ids)
    assert table is not None, name
    rows = Vocabulary(pd.Index(table["item" if "item" in table else "user"])).encode(ids)
    return np.concatenate([[0], field.encode(table[name])])[rows]


def with_rows(data: Data, rows: Rows) -> Data:
    """Return a run's data with rows of the challenger's tables in place of the codes of the run."""
    if not rows:
        return data

    def mapped(codes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: rows[name].rows[of] if name in rows else of for name, of in codes.items()}

    features = data.features
    schema = features.schema.resized({name: of.size for name, of in rows.items()})
    return replace(
        data,
        log=replace(data.log, fields=mapped(data.log.fields)),
        features=replace(features, schema=schema, items=mapped(features.items), users=mapped(features.users)),
    )


def vocabularies_with(vocabularies: FieldVocabularies, rows: Rows) -> FieldVocabularies:
    """Return the vocabularies of the challenger: the ids with a row, in the order of the rows."""
    fields = dict(vocabularies.fields)
    for name, of in rows.items():
        codes = np.flatnonzero(of.rows)
        values = fields[name].vocabulary.values[codes[np.argsort(of.rows[codes])] - 1]
        fields[name] = replace(fields[name], vocabulary=Vocabulary(values))
    return replace(vocabularies, fields=fields)
