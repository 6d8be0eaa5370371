"""Further sequences of behaviours, and items that were shown and not clicked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog, run_offsets
from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.encoding import CodedColumn, FeatureTables, derived_fields
from deep_interest.logs.feature_columns import CLICKED, DERIVED, GAP, FeatureColumns, SequenceColumns
from deep_interest.logs.hashing import Purpose, below, hash64
from deep_interest.logs.history_ranges import Calendar, history_begins, history_ends
from deep_interest.logs.protocols import is_one_of
from deep_interest.logs.schema import Field, Sequence

_CLICKED_FIELD = Field(name=CLICKED, size=3)  # 1 for skipped, 2 for clicked
NEWEST_SHOWN = 20  # impressions before a behaviour from which its negative is drawn


@dataclass(frozen=True)
class Sequences:
    """The further sequences of a dataset.

    Attributes:
        logs: ``{name: log}``.
        schemas: ``{name: fields}``.
        columns: ``{column: (n,)}`` int32: ``history_begin.<name>`` and ``history_end.<name>`` of each sample.
    """

    logs: dict[str, BehaviorLog]
    schemas: dict[str, Sequence]
    columns: dict[str, np.ndarray]


@dataclass(frozen=True)
class SampleTimes:
    """When the samples happen, ``(n,)`` each: code of the user, time, and day."""

    user: np.ndarray
    time: np.ndarray
    day: np.ndarray


def encode_sequences(
    columns: FeatureColumns,
    log: EncodedLog,
    behaviors: pd.DataFrame,
    impressions: pd.DataFrame | None,
    *,
    features: FeatureTables,
    own: Mapping[str, CodedColumn],
    samples: SampleTimes,
    calendar: Calendar,
) -> Sequences:
    """Encode the further sequences of behaviours, and find what each sample sees of them: events strictly before its own time.

    Args:
        columns: feature columns with the declarations of the sequences.
        log: encoded behaviours.
        behaviors: canonical table of behaviours, in the order of the log.
        impressions: canonical table of impressions, sorted by user and time; None if the dataset has none.
        features: feature codes of the items.
        own: encoded features of the behaviours themselves.
        samples: users and times of the samples.
        calendar: how days follow from times.

    Raises:
        InputError: a sequence has no events, or needs impressions that the dataset does not have.
    """
    logs, schemas, ranges = {}, {}, {}
    for name, declared in columns.sequences.items():
        if declared.source == "impressions":
            events, codes = _of_impressions(name, declared, log, impressions)
        else:
            events, codes = _of_behaviors(name, declared, log, behaviors, own)
        events = calendar.with_days(events)
        fields = sequence_fields(declared, features, own)
        stored = {
            field.name: features.items[field.name][events.item]
            if field.name in features.items
            else codes[field.name]
            for field in fields
            if not field.derived
        }
        logs[name] = BehaviorLog(events.offsets, stored, events.time if GAP in declared.behavior else None)
        schemas[name] = Sequence(behavior=fields, max_len=declared.max_len)
        logged_before = samples.time - declared.delay + (1 if declared.delay else 0)
        ranges[f"history_begin.{name}"] = history_begins(
            events, samples.user, samples.day, declared.history_days
        )
        ranges[f"history_end.{name}"] = history_ends(events, samples.user, logged_before)
    return Sequences(logs, schemas, ranges)


def shown_negatives(
    log: EncodedLog, impressions: pd.DataFrame, *, seed: int, hashed: bool = False
) -> np.ndarray:
    """Draw for each behaviour one of the user's newest impressions before it that were not clicked.

    This is how DIEN samples the negatives of its auxiliary loss on industrial data ("shown but not clicked").

    Args:
        log: encoded behaviours, sorted by user and time.
        impressions: canonical table of impressions, sorted by user and time.
        seed: seed of the draw.
        hashed: whether the draw is a hash of user and position, see `logs.hashing`.

    Returns:
        ``(N,)`` int32 item code; 0 if there is none, or if it is the item of the behaviour.
    """
    skipped = _select(_encode_impressions(log, impressions), (impressions["label"] == 0).to_numpy())
    before = history_ends(skipped, log.user, log.time)
    candidates = np.minimum(before, NEWEST_SHOWN)
    if hashed:
        back = below(hash64(seed, Purpose.SHOWN_NEGATIVE, log.user, log.position), candidates)
    else:
        back = (np.random.default_rng([seed, 3]).random(len(before)) * candidates).astype(np.int64)
    chosen = before - 1 - back
    rows = skipped.offsets[log.user] + chosen
    items = np.zeros(len(before), np.int32)
    exists = before > 0
    items[exists] = skipped.item[rows[exists]]
    return np.where(items == log.item, 0, items).astype(np.int32)


def _of_behaviors(
    name: str,
    declared: SequenceColumns,
    log: EncodedLog,
    behaviors: pd.DataFrame,
    own: Mapping[str, CodedColumn],
) -> tuple[EncodedLog, dict[str, np.ndarray]]:
    chosen = np.ones(len(behaviors), bool)
    for column, values in declared.where.items():
        if column not in behaviors:
            raise InputError(
                f"features.sequences.{name}.where: {column} is not a column of the behaviours ({', '.join(map(str, behaviors))})"
            )
        chosen &= is_one_of(behaviors[column], values)
    _require(name, declared, chosen, behaviors)
    codes = {key: own[key].codes[chosen] for key in declared.behavior if key in own}
    return _select(log, chosen), codes


def _of_impressions(
    name: str, declared: SequenceColumns, log: EncodedLog, impressions: pd.DataFrame | None
) -> tuple[EncodedLog, dict[str, np.ndarray]]:
    if impressions is None:
        raise InputError(
            f"features.sequences.{name}: source: impressions needs impressions, but the dataset has none; declare source.impressions, "
            "or use source: behaviors"
        )
    clicked = impressions["label"].to_numpy()
    wanted = declared.where.get(CLICKED)
    chosen = (
        np.ones(len(clicked), bool) if wanted is None else np.isin(clicked, [int(value) for value in wanted])
    )
    _require(name, declared, chosen, pd.DataFrame({CLICKED: clicked}))
    return _select(_encode_impressions(log, impressions), chosen), {
        CLICKED: (clicked[chosen] + 1).astype(np.int32)
    }


def _require(name: str, declared: SequenceColumns, chosen: np.ndarray, table: pd.DataFrame) -> None:
    if chosen.any():
        return
    found = "; ".join(
        f"{column} has {', '.join(map(str, table[column].value_counts().index[:8]))}"
        for column in declared.where
    )
    raise InputError(
        f"features.sequences.{name}: none of the {len(table):,} {declared.source} belongs to it{f' ({found})' if found else ''}; change "
        "where, or remove the sequence"
    )


def _encode_impressions(log: EncodedLog, impressions: pd.DataFrame) -> EncodedLog:
    user, item = log.users.encode(impressions["user"]), log.items.encode(impressions["item"])
    day = impressions["day"].to_numpy(np.int32) if "day" in impressions else None
    time = impressions["time"].to_numpy(np.int64)
    return EncodedLog(log.users, log.items, run_offsets(user, len(log.users)), user, item, time, None, day)


def _select(log: EncodedLog, chosen: np.ndarray) -> EncodedLog:
    user = log.user[chosen]
    return replace(
        log, offsets=run_offsets(user, len(log.users)), user=user, item=log.item[chosen], time=log.time[chosen], rating=None,
        day=None if log.day is None else log.day[chosen],
    )  # fmt: skip


def sequence_fields(
    declared: SequenceColumns, features: FeatureTables, own: Mapping[str, CodedColumn]
) -> tuple[Field, ...]:
    """Return the fields of a sequence, those of the item first."""
    known = {field.name: field for field in features.schema.item}
    known |= (
        {CLICKED: _CLICKED_FIELD} | {name: column.field for name, column in own.items()} | derived_fields()
    )
    names = [name for name in declared.behavior if name in features.items]
    names += [name for name in declared.behavior if name not in features.items]
    return tuple(known[name] for name in names if name in known or name in DERIVED)
