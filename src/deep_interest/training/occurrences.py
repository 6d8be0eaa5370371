"""n_j: in how many training samples an id occurs (DIN §5.1)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from deep_interest.logs.schema import Group
from deep_interest.models.layers import Table
from deep_interest.training.data import SampleSet
from deep_interest.training.regularizers import occurrence_key

AT_ONCE = 1 << 20  # behaviours whose occurrences are counted at once


def occurrences_of(tables: list[Table], samples: SampleSet) -> dict[str, Tensor]:
    """n_j of the tables, ``{key: (rows,) int64}`` by `regularizers.occurrence_key`; not of crossed features.

    Args:
        tables: embedding tables.
        samples: the training samples.
    """
    return {
        occurrence_key(table): torch.from_numpy(
            samples_with_each_id(_as_rows(samples, table), table.field, table.groups, table.num_embeddings)
        ).to(samples.labels.device)
        for table in tables
        if table.groups
    }


def _as_rows(samples: SampleSet, table: Table) -> SampleSet:
    """The samples with the rows that the table's codes look up in their place."""
    if not table.keep_top:
        return samples
    store, name = samples.store, table.field
    history = store.history | {name: table.rows_of(store.history[name])}
    items = store.items | {name: table.rows_of(store.items[name])}
    return replace(samples, store=replace(store, history=history, items=items))


def samples_with_each_id(samples: SampleSet, field: str, groups: tuple[Group, ...], size: int) -> np.ndarray:
    """Count for each code of a field the samples in which it occurs, as candidate, in the history, or as a feature.

    A sample counts once for an id, however often the id stands in its history: DIN eq. 4 sums ``I(x_j ≠ 0) / n_j`` over
    the samples, which is the plain L2 norm for that ``n_j``. No history is materialised.

    Args:
        samples: the training samples; histories are their windows of ``max_len``.
        field: name of the field.
        groups: where to look for it.
        size: number of codes.

    Returns:
        ``(size,)`` int64.
    """
    samples, total = samples.on_host, np.zeros(size, np.int64)
    for group in groups:
        if group != "behavior":
            rows, codes = _codes(samples, field, group)
            if group == "item" and "behavior" in groups:
                codes = codes[~_in_history(samples, field, rows, codes)]
            total += np.bincount(codes, minlength=size)
    if "behavior" in groups:
        total += _history_counts(samples, field, size)
    return total


def _codes(samples: SampleSet, field: str, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """A sample's number and a code that it has, for each value that one of the samples has."""
    store, user = samples.store, samples.user
    if group == "item":
        codes = store.items[field][samples.item]
    else:
        codes = store.users[field][user] if group == "profile" else samples.context[field]
    return _values(samples, field, codes)


def _values(samples: SampleSet, field: str, codes: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The places of codes and they themselves; of a multi-hot field each value of a value set with the value set's place."""
    if field not in samples.store.value_sets:
        return np.arange(len(codes)), codes.numpy()
    values, runs = samples.store.value_sets[field].of(codes, field)
    return runs.segments.numpy(), values.numpy()


def _history_counts(samples: SampleSet, field: str, size: int) -> np.ndarray:
    """Samples whose window holds an id: each counts at the id's newest behaviour in the window."""
    offsets, user, end = _runs(samples)
    counts = np.zeros(size, np.int64)
    for block in _blocks(offsets):
        first, last = block
        asked, runs = _samples_of(user, block), offsets[first : last + 1]
        shifted = runs - runs[0] + np.arange(len(runs))
        ends = np.bincount(shifted[user[asked] - first] + end[asked], minlength=shifted[-1])
        np.cumsum(ends, out=ends)  # samples by user and history end 0 … n_u, cumulated
        owner, place, codes = _behaviors(samples, field, offsets, block)
        owner -= first
        position = place - runs[owner]
        order = np.lexsort((position, codes, owner))
        again = (owner[order][1:] == owner[order][:-1]) & (codes[order][1:] == codes[order][:-1])
        until = np.diff(runs)[owner]  # the newest up to and including this history end
        until[order[:-1][again]] = position[order[1:][again]]
        until = np.minimum(until, position + samples.max_len)
        holding = ends[shifted[owner] + until] - ends[shifted[owner] + position]
        counts += np.bincount(codes, weights=holding, minlength=size).astype(np.int64)
    return counts


def _in_history(samples: SampleSet, field: str, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """``(k,)`` whether the window of each of the samples ``rows (k,)`` holds the code ``wanted (k,)``."""
    offsets, user, end = _runs(samples)
    found = np.zeros(len(rows), bool)
    for block in _blocks(offsets):
        asked = _samples_of(user[rows], block)
        own = rows[asked]
        begin = offsets[user[own]] + np.maximum(end[own] - samples.max_len, 0)
        log = _behaviors(samples, field, offsets, block)
        found[asked] = _held(log, user[own], wanted[asked], begin, offsets[user[own]] + end[own])
    return found


def _held(
    log: tuple[np.ndarray, np.ndarray, np.ndarray], user: np.ndarray, wanted: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:  # fmt: skip
    """``(k,)`` whether a user's behaviours at the places ``[begin, end)`` of the log have the code ``wanted``."""
    owner, place, codes = log
    if not len(place):
        return np.zeros(len(user), bool)
    first, length = (
        place[0],
        place[-1] - place[0] + 2,
    )  # places from the block's first; products stay below 2^63
    span = np.int64(max(int(codes.max()), int(wanted.max(initial=0))) + 1)
    pairs, pair = np.unique(owner * span + codes, return_inverse=True)  # (user, code)
    keys = np.sort(pair * length + (place - first))
    asked = user * span + wanted
    pair = np.searchsorted(pairs, asked)
    known = pairs[np.minimum(pair, len(pairs) - 1)] == asked
    newest = np.searchsorted(keys, pair * length + (end - first)) - 1  # of the pair, before the history's end
    return known & (newest >= 0) & (keys[newest] >= pair * length + (begin - first))


def _runs(samples: SampleSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets of the users' runs, and the samples' users and history ends."""
    return samples.store.offsets.numpy(), samples.user.numpy(), samples.history_end.numpy()


def _samples_of(user: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """The places of the samples of a block's users."""
    return np.flatnonzero((user >= block[0]) & (user < block[1]))


def _blocks(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """First user and last + 1 of blocks with a bounded number of behaviours, so that a long log needs no more memory."""
    first, users = 0, len(offsets) - 1
    while first < users:
        fitting = int(np.searchsorted(offsets, offsets[first] + AT_ONCE, side="right")) - 1
        yield first, (first := max(fitting, first + 1))


def _behaviors(
    samples: SampleSet, field: str, offsets: np.ndarray, block: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The users, the places in the log and the codes of a block's behaviours, one for each value."""
    first, last = block
    begin = offsets[first]
    place, codes = _values(samples, field, samples.store.history[field][begin : offsets[last]])
    owner = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))[place]
    return owner, place + begin, codes
