"""Protocols: which events become training and test samples, and where the history of each sample ends.

A sample only sees behaviours before its own event. ``by_day`` compares times, so that behaviours at the time of the impression
are excluded. The catalogue protocols use the position in the user's sequence, in which behaviours with equal times (common if
times are whole days) are in a seeded random order; with ``ties: exclude`` they compare times as well.
"""

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.hashed_sampling import hashed_negatives, shuffled_users
from deep_interest.logs.hashing import Purpose
from deep_interest.logs.history_ranges import history_begins
from deep_interest.logs.negatives import sample_negatives
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import SPLITS, TEST, TRAIN, VALIDATION, Samples


def catalogue_samples(log: EncodedLog, protocol: ProtocolParameters) -> Samples:
    """Make the samples of a log without impressions: ``next_item``, ``last_item`` or ``rated``.

    Raises:
        InputError: the log does not fit the protocol (no ratings, no user with enough behaviours, an empty split).
    """
    makers = {"next_item": _next_item, "last_item": _last_item, "rated": _rated}
    if protocol.name not in makers:
        raise InputError(
            f"protocol.name: {protocol.name} needs impressions, but this dataset has none; use one of {', '.join(makers)}, or declare "
            "source.impressions"
        )
    samples = makers[protocol.name](log, protocol)
    if protocol.history_days is not None:
        days = protocol.calendar.days(samples.time)
        dated = protocol.calendar.with_days(log)
        samples.history_begin = history_begins(dated, samples.user, days, protocol.history_days)
    present = np.bincount(samples.split, minlength=len(SPLITS))
    require_splits(
        protocol,
        present,
        users=int((log.length > 0).sum()),
        behaviors=len(log.user),
        left_out=samples.left_out,
    )
    return samples


def require_splits(
    protocol: ProtocolParameters, present: np.ndarray, *, users: int, behaviors: int, left_out: dict[str, int]
) -> None:
    """Check that no split is empty.

    Args:
        protocol: protocol.
        present: ``(3,)`` number of samples of each split.
        users, behaviors: size of the log, for the message.
        left_out: behaviours that are not samples, as ``{reason: rows}``, for the message.

    Raises:
        InputError: a split is empty.
    """
    needed = (TRAIN, TEST) if protocol.mode == "paper" else (TRAIN, VALIDATION, TEST)
    empty = [SPLITS[k] for k in needed if not present[k]]
    if empty:
        raise InputError(
            f"protocol {protocol.name}: no {' and no '.join(empty)} samples from {users} users with {behaviors} behaviours (dropped: "
            f"{left_out or 'none'}); provide more data or change the parameters of the protocol"
        )


def _next_item(log: EncodedLog, protocol: ProtocolParameters) -> Samples:
    """Every behaviour from the 2nd on is a target (DIN §6.2); the last is a test target, the second last a validation target."""
    position, is_target = log.position, _targets(log)
    enough = log.length[log.user] >= protocol.min_behaviors
    target = enough & (position >= 1) & is_target
    rank = np.cumsum(is_target)
    from_end = rank[log.offsets[log.user + 1] - 1] - rank  # later targets of the same user
    split = np.full(len(position), TRAIN, np.int8)
    split[from_end == 0] = TEST
    if protocol.mode == "validated":
        split[from_end == 1] = VALIDATION
    return _with_negatives(log, protocol, np.flatnonzero(target), split[target], _too_few(log, protocol))


def _last_item(log: EncodedLog, protocol: ProtocolParameters) -> Samples:
    """The last behaviour of each user is the target (DIEN, public datasets); users are split."""
    is_target = _targets(log)
    last = np.full(len(log.length), -1)
    np.maximum.at(last, log.user[is_target], np.flatnonzero(is_target))
    users = np.flatnonzero((log.length >= protocol.min_behaviors) & (last >= 0))
    rows = last[users]
    return _with_negatives(
        log, protocol, rows, _user_split(log, users, protocol)[log.user[rows]], _too_few(log, protocol)
    )


def _rated(log: EncodedLog, protocol: ProtocolParameters) -> Samples:
    """Every rating is a sample, positive from a threshold (DIN §6.2, MovieLens); users are split."""
    if log.rating is None:
        raise InputError(
            "protocol.name: rated needs ratings, but the source has none; use next_item or last_item, or set source.behaviors.rating to "
            "the column of the ratings"
        )
    split = _user_split(log, np.flatnonzero(log.length), protocol)
    label = (log.rating >= protocol.positive_rating).astype(np.int8)
    return Samples(log.user, log.item, label, log.time, _history_end(log, protocol), split[log.user], {})


def _targets(log: EncodedLog) -> np.ndarray:
    return np.ones(len(log.user), bool) if log.target is None else log.target


def target_behaviors(behaviors: pd.DataFrame, protocol: ProtocolParameters) -> np.ndarray | None:
    """Return which behaviours can be targets, ``(N,)`` bool; None if all can.

    Raises:
        InputError: a column is missing, or no behaviour has one of the values.
    """
    if not protocol.targets:
        return None
    chosen = np.ones(len(behaviors), bool)
    for column, values in protocol.targets.items():
        if column not in behaviors:
            raise InputError(
                f"protocol.targets: {column} is not a column of the behaviours ({', '.join(map(str, behaviors))}); add it to "
                "features.behavior, or remove it here"
            )
        chosen &= is_one_of(behaviors[column], values)
        if not chosen.any():
            found = ", ".join(map(str, behaviors[column].value_counts().index[:8]))
            raise InputError(
                f"protocol.targets: no behaviour has {column} {' or '.join(map(str, values))}; the values are {found}"
            )
    return chosen


def is_one_of(column: pd.Series, values: tuple[bool | int | float | str, ...]) -> np.ndarray:
    """Return which values of a column are in a list, ``(n,)`` bool: compared as numbers in a column of numbers, otherwise as strings."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = pd.to_numeric(pd.Series([str(value) for value in values]), errors="coerce")
        return column.isin(numbers.dropna().tolist()).to_numpy()
    return column.astype("str").isin([str(value) for value in values]).to_numpy()


def _history_end(log: EncodedLog, protocol: ProtocolParameters) -> np.ndarray:
    """Return the number of behaviours in the history of each behaviour as a target, ``(N,)`` int32."""
    position = log.position
    if protocol.ties == "exclude":
        rows = np.arange(len(position))
        repeated = np.zeros(len(position), bool)
        repeated[1:] = (log.user[1:] == log.user[:-1]) & (log.time[1:] == log.time[:-1])
        position = position[np.maximum.accumulate(np.where(repeated, 0, rows))]
    return position.astype(np.int32)


def _user_split(log: EncodedLog, users: np.ndarray, protocol: ProtocolParameters) -> np.ndarray:
    """Return the split of each user, ``(U,)``: a seeded share of test users, and a share of the others for validation."""
    shuffled = (
        shuffled_users(users, protocol.seed)
        if protocol.hashed
        else np.random.default_rng([protocol.seed, 1]).permutation(users)
    )
    tests, validations = user_shares(len(users), protocol)
    split = np.full(len(log.length), TRAIN, np.int8)
    split[shuffled[:tests]] = TEST
    split[shuffled[tests : tests + validations]] = VALIDATION
    return split


def user_shares(users: int, protocol: ProtocolParameters) -> tuple[int, int]:
    """Return how many of the users are test users, and how many are validation users."""
    tests = round(users * protocol.test_users)
    return tests, round((users - tests) * protocol.validation_users)


def _too_few(log: EncodedLog, protocol: ProtocolParameters) -> dict[str, int]:
    short = (log.length > 0) & (log.length < protocol.min_behaviors)
    return {
        f"behaviors of users with fewer than {protocol.min_behaviors} behaviors": int(log.length[short].sum())
    }


def _with_negatives(
    log: EncodedLog,
    protocol: ProtocolParameters,
    rows: np.ndarray,
    split: np.ndarray,
    left_out: dict[str, int],
) -> Samples:
    """Pair each positive with a negative that its user never interacted with."""
    negative = np.zeros(len(rows), np.int32)
    counts = _training_counts(log, rows, split)
    everything = np.arange(1, len(log.items), dtype=np.int32)
    for index, wanted in enumerate((split == TRAIN, split != TRAIN)):
        pool = (
            np.flatnonzero(counts).astype(np.int32)
            if index == 0 and protocol.negative_pool == "trained"
            else everything
        )
        weights = counts[pool] if protocol.negatives == "popularity" else None
        if weights is not None:
            pool, weights = pool[weights > 0], weights[weights > 0]
        negative[wanted] = _negatives(log, protocol, rows[wanted], pool, weights, held_out=index == 1)
    possible = negative > 0
    left_out[
        "targets of users who have interacted with all items that may be sampled (no negative possible)"
    ] = int((~possible).sum())
    rows, split, negative = rows[possible], split[possible], negative[possible]
    pairs = {
        "user": log.user[rows], "time": log.time[rows], "history_end": _history_end(log, protocol)[rows], "split": split,
    }  # fmt: skip
    item = np.stack([log.item[rows], negative], axis=1).ravel()
    label = np.tile(np.array([1, 0], np.int8), len(rows))
    return Samples(
        item=item, label=label, left_out={reason: n for reason, n in left_out.items() if n},
        **{name: np.repeat(values, 2) for name, values in pairs.items()},
    )  # fmt: skip


def _negatives(
    log: EncodedLog,
    protocol: ProtocolParameters,
    rows: np.ndarray,
    pool: np.ndarray,
    weights: np.ndarray | None,
    *,
    held_out: bool,
) -> np.ndarray:
    """Return an item of the pool for each target that its user never interacted with, ``(n,)`` int32; 0 if there is none."""
    if not protocol.hashed:
        return sample_negatives(
            log.user[rows], seen_users=log.user, seen_items=log.item, pool=pool, weights=weights,
            rng=np.random.default_rng([protocol.seed, 2, int(held_out)]),
        )  # fmt: skip
    return hashed_negatives(
        log.user[rows], log.position[rows], seen_users=log.user, seen_items=log.item, pool=pool, weights=weights,
        seed=protocol.seed, purpose=Purpose.HELD_OUT_NEGATIVE if held_out else Purpose.TRAINING_NEGATIVE,
    )  # fmt: skip


def _training_counts(log: EncodedLog, rows: np.ndarray, split: np.ndarray) -> np.ndarray:
    """Count the behaviours of each item code, ``(I + 1,)``, without validation and test targets."""
    held_out = rows[split != TRAIN]
    counts = np.bincount(log.item, minlength=len(log.items))
    return counts - np.bincount(log.item[held_out], minlength=len(log.items))
