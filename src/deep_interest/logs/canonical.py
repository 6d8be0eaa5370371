"""Turn the tables of a source into sorted, checked canonical tables without duplicates."""

from dataclasses import replace

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.tables import CanonicalTables

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def canonical(
    tables: CanonicalTables,
    *,
    seed: int = 0,
    max_users: int | None = None,
    repeated_impressions: bool = False,
) -> CanonicalTables:
    """Sort behaviours and impressions by user and time, drop exact duplicates, and check that no id is missing.

    Events of a user at the same time are ordered by a seeded hash of their ids, never by the order of item ids or of the file.

    Args:
        tables: tables of a source reader.
        seed: seed of the hash that breaks ties, and of the sample of users.
        max_users: number of users to sample; all if None.
        repeated_impressions: whether repeated impressions (same user, item, time, label and request) are kept; always, if the
            impressions give their splits.

    Raises:
        InputError: a table is empty, or an id or time is missing.
    """
    left_out, notes = dict(tables.left_out), dict(tables.notes)
    if max_users is not None:
        tables = _some_users(tables, max_users, seed, left_out)
    behaviors, impressions = tables.behaviors, tables.impressions
    if "segment" not in behaviors:
        behaviors = _sorted_events(behaviors, "behaviors", seed, left_out, notes)
    elif behaviors.empty:
        raise InputError(
            "impressions.history: no row has a history; check the column and the separator of its lists, or remove it"
        )
    else:  # given histories are in order, and may repeat an item
        behaviors = behaviors.reset_index(drop=True)
    if impressions is not None:
        repeated_impressions = (
            repeated_impressions or "split" in impressions
        )  # a given test set keeps its rows
        impressions = _sorted_events(
            impressions, "impressions", seed, left_out, notes, repeated=repeated_impressions
        )
    if tables.items["item"].duplicated().any():
        repeated = tables.items.loc[tables.items["item"].duplicated(), "item"].iloc[0]
        raise InputError(f"items: item {repeated} has several rows; keep one row per item")
    return replace(tables, behaviors=behaviors, impressions=impressions, left_out=left_out, notes=notes)


def _some_users(
    tables: CanonicalTables, max_users: int, seed: int, left_out: dict[str, int]
) -> CanonicalTables:
    """Keep the events of a sample of users, and count the dropped ones."""
    log = tables.shown if "segment" in tables.behaviors else tables.behaviors
    users = np.sort(log["user"].unique())
    if len(users) <= max_users:
        return tables
    chosen = np.random.default_rng(seed).choice(users, max_users, replace=False)
    behaviors = tables.behaviors[tables.behaviors["user"].isin(chosen)]
    left_out[f"behaviors of users beyond max_users ({max_users})"] = len(tables.behaviors) - len(behaviors)
    impressions = tables.impressions
    if impressions is not None:
        impressions = impressions[impressions["user"].isin(chosen)]
        left_out[f"impressions of users beyond max_users ({max_users})"] = len(tables.shown) - len(
            impressions
        )
    return replace(tables, behaviors=behaviors, impressions=impressions)


def _sorted_events(
    events: pd.DataFrame,
    table: str,
    seed: int,
    left_out: dict[str, int],
    notes: dict[str, int],
    *,
    repeated: bool = False,
) -> pd.DataFrame:
    if events.empty:
        reasons = "; ".join(f"{reason}: {rows:,}" for reason, rows in left_out.items())
        why = f"check the rows that were dropped ({reasons})" if reasons else "the source file has none"
        raise InputError(f"{table}: no rows remain; {why}")
    for column in ("user", "item", "time"):
        if events[column].isna().any():
            raise InputError(f"{table}.{column}: {int(events[column].isna().sum())} rows have no value")
    user = _rank(events["user"])
    item = _rank(events["item"])
    order = _order(user, events["time"].to_numpy(np.int64), _hash(user, item, seed))
    key = [
        user,
        item,
        events["time"].to_numpy(np.int64),
        *([events["label"].to_numpy()] if "label" in events else []),
        *([pd.factorize(events["request"])[0]] if "request" in events else []),
    ]
    if unordered := _out_of_order(order, user, events["time"].to_numpy(np.int64)):
        notes[f"{table} out of time order in the source (they are sorted)"] = unordered
    duplicate = _repeats([column[order] for column in key])
    if duplicate.any() and not repeated:
        reason = (
            f"duplicate {table} (same user, item{', time and label' if 'label' in events else ' and time'})"
        )
        left_out[reason] = left_out.get(reason, 0) + int(duplicate.sum())
        order = order[~duplicate]
    if len(order) == len(events) and (order == np.arange(len(order))).all():
        return events.reset_index(drop=True)
    return pd.DataFrame({name: column.array.take(order) for name, column in events.items()})


def _rank(column: pd.Series) -> np.ndarray:
    """Return order-preserving ranks ``(n,)`` of ids: their offset from the smallest id if they are integers within 32 bits."""
    if column.dtype.kind in "iu":
        low, high = int(column.min()), int(column.max())
        if high - low < 2**31:
            return (column.to_numpy() - low).astype(np.uint32)
    return pd.factorize(column, sort=True)[0].astype(np.uint32)


def _hash(user: np.ndarray, item: np.ndarray, seed: int) -> np.ndarray:
    """Return a seeded 32-bit hash (splitmix64) of the ids of each row."""
    with np.errstate(over="ignore"):
        x = (user.astype(np.uint64) << np.uint64(32)) | item
        x += np.uint64(seed + 1) * _GOLDEN
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x >> np.uint64(32)).astype(np.uint32)


def _order(user: np.ndarray, time: np.ndarray, tie: np.ndarray) -> np.ndarray:
    """Return the stable order by user, time, tie: one sort of a packed int64 key, and another one of tied rows only."""
    span = int(time.max()) - int(time.min())
    if span >= 2**32:
        time = np.unique(time, return_inverse=True)[1]
        span = int(time.max())
    key = (user.astype(np.uint64) << np.uint64(32)) | (time - time.min()).astype(np.uint64)
    order = np.argsort(key, kind="stable")
    key = key[order]
    tied = np.zeros(len(key), bool)
    same = key[1:] == key[:-1]
    tied[1:] |= same
    tied[:-1] |= same
    positions = np.flatnonzero(tied)
    if len(positions):
        rows = order[positions]
        group = np.cumsum(np.concatenate([[True], key[positions][1:] != key[positions][:-1]])).astype(
            np.uint64
        )
        order[positions] = rows[np.argsort((group << np.uint64(32)) | tie[rows], kind="stable")]
    return order


def _out_of_order(order: np.ndarray, user: np.ndarray, time: np.ndarray) -> int:
    """Count the events that precede an earlier event of the same user in the source; ``order (n,)`` sorts by user and time."""
    back = np.flatnonzero(order[1:] < order[:-1])
    earlier, later = order[back], order[back + 1]
    return int(np.count_nonzero((user[earlier] == user[later]) & (time[earlier] < time[later])))


def _repeats(columns: list[np.ndarray]) -> np.ndarray:
    """Return whether each row equals its predecessor, ``(n,)``; rows with the same user, item and time are adjacent."""
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return np.concatenate([[False], same])
