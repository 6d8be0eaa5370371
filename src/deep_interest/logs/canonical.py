"""From a source's tables to sorted, checked, duplicate-free canonical tables."""

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
    """Sort behaviours and impressions by user and time, drop exact duplicates, check that ids are there.

    Time ties are broken by a seeded hash of the row's ids, never by the item id's order or the file's order.

    Args:
        tables: as a source reader returned them.
        seed: of the hash that breaks time ties, and of the choice of users.
        max_users: keep a random choice of this many users of the behaviours; all if None.
        repeated_impressions: an impression that stands there twice (same user, item, time and label) is two.

    Raises:
        InputError: a table is empty, or an id or time is missing.
    """
    left_out, notes = dict(tables.left_out), dict(tables.notes)
    if max_users is not None:
        tables = _some_users(tables, max_users, seed, left_out)
    behaviors = _sorted_events(tables.behaviors, "behaviors", seed, left_out, notes)
    impressions = tables.impressions
    if impressions is not None:
        impressions = _sorted_events(
            impressions, "impressions", seed, left_out, notes, repeated=repeated_impressions
        )
    if tables.items["item"].duplicated().any():
        repeated = tables.items.loc[tables.items["item"].duplicated(), "item"].iloc[0]
        raise InputError(f"items: item {repeated} stands there twice; keep one row for each item")
    return replace(tables, behaviors=behaviors, impressions=impressions, left_out=left_out, notes=notes)


def _some_users(
    tables: CanonicalTables, max_users: int, seed: int, left_out: dict[str, int]
) -> CanonicalTables:
    """Only the events of some users; what is dropped is counted."""
    users = np.sort(tables.behaviors["user"].unique())
    if len(users) <= max_users:
        return tables
    chosen = np.random.default_rng(seed).choice(users, max_users, replace=False)
    behaviors = tables.behaviors[tables.behaviors["user"].isin(chosen)]
    left_out[f"behaviors of users beyond max_users ({max_users})"] = len(tables.behaviors) - len(behaviors)
    impressions = tables.impressions
    if impressions is not None:
        impressions = impressions[impressions["user"].isin(chosen)]
        left_out[f"impressions of users beyond max_users ({max_users})"] = len(tables.impressions) - len(
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
        raise InputError(
            f"{table}: no rows are left to work with; check the source file and what was left out: {left_out}"
        )
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
    """Dense order-preserving ranks ``(n,)`` of ids: integers as they are where they fit in 32 bits."""
    if column.dtype.kind in "iu":
        low, high = int(column.min()), int(column.max())
        if high - low < 2**31:
            return (column.to_numpy() - low).astype(np.uint32)
    return pd.factorize(column, sort=True)[0].astype(np.uint32)


def _hash(user: np.ndarray, item: np.ndarray, seed: int) -> np.ndarray:
    """A seeded 32-bit mix (splitmix64) of each row's ids."""
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
    """Stable order by user, time, tie; one sort of a packed int64 key, a second only over tied runs."""
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
    where = np.flatnonzero(tied)
    if len(where):
        rows = order[where]
        run = np.cumsum(np.concatenate([[True], key[where][1:] != key[where][:-1]])).astype(np.uint64)
        order[where] = rows[np.argsort((run << np.uint64(32)) | tie[rows], kind="stable")]
    return order


def _out_of_order(order: np.ndarray, user: np.ndarray, time: np.ndarray) -> int:
    """How many events stand before one of the same user and an earlier time; ``order (n,)`` sorts by user and time."""
    back = np.flatnonzero(order[1:] < order[:-1])
    earlier, later = order[back], order[back + 1]
    return int(np.count_nonzero((user[earlier] == user[later]) & (time[earlier] < time[later])))


def _repeats(columns: list[np.ndarray]) -> np.ndarray:
    """Rows ``(n,)`` equal to their predecessor; rows of one user, item and time are neighbours: they hash alike."""
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return np.concatenate([[False], same])
