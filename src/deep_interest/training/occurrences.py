"""n_j: in how many training samples an id occurs (DIN §5.1)."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from deep_interest.logs.schema import Group
from deep_interest.models.layers import Table
from deep_interest.training.data import SampleSet
from deep_interest.training.regularizers import occurrence_key


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
    total = np.zeros(size, np.int64)
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
    """The places of codes and they themselves; of a multi-hot field each value of a cell with the cell's place."""
    if field not in samples.store.cells:
        return np.arange(len(codes)), codes.cpu().numpy()
    values, runs = samples.store.cells[field].of(codes)
    return runs.segments.cpu().numpy(), values.cpu().numpy()


def _history_counts(samples: SampleSet, field: str, size: int) -> np.ndarray:
    """Samples whose window holds an id: each counts at the id's newest behaviour in the window."""
    offsets, place, codes, user, end = _log(samples, field)
    ends = np.zeros(
        offsets[-1] + len(offsets), np.int64
    )  # samples by user and history end 0 … n_u, cumulated
    shifted = offsets + np.arange(len(offsets))
    np.add.at(ends, shifted[user] + end, 1)
    ends = ends.cumsum()
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[place]
    position = place - offsets[owner]
    order = np.lexsort((position, codes, owner))
    again = (owner[order][1:] == owner[order][:-1]) & (codes[order][1:] == codes[order][:-1])
    until = np.diff(offsets)[owner]  # the newest up to and including this history end
    until[order[:-1][again]] = position[order[1:][again]]
    until = np.minimum(until, position + samples.max_len)
    holding = ends[shifted[owner] + until] - ends[shifted[owner] + position]
    return np.bincount(codes, weights=holding, minlength=size).astype(np.int64)


def _in_history(samples: SampleSet, field: str, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """``(k,)`` whether the window of each of the samples ``rows (k,)`` holds the code ``wanted (k,)``."""
    offsets, place, codes, user, end = _log(samples, field)
    user, end = user[rows], end[rows]
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[place]
    span = np.int64(max(int(codes.max(initial=0)), int(wanted.max(initial=0))) + 1)
    pair = owner * span + codes  # (user, code)
    order = np.argsort(pair, kind="stable")  # the positions of a pair stay in order
    pairs, place = pair[order], place[order]
    asked = user * span + wanted
    first = offsets[user] + np.maximum(end - samples.max_len, 0)
    # the newest behaviour of the pair before the history's end, by a key of pair and place in the log
    length = np.int64(offsets[-1] + 1)
    found = np.searchsorted(pairs * length + place, asked * length + offsets[user] + end) - 1
    hit = found >= 0
    hit[hit] = (pairs[found[hit]] == asked[hit]) & (place[found[hit]] >= first[hit])
    return hit


def _log(samples: SampleSet, field: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, the places in the log and the codes there, and the samples' users and history ends."""
    store = samples.store
    return (
        store.offsets.cpu().numpy(), *_values(samples, field, store.history[field]),
        samples.user.cpu().numpy().astype(np.int64), samples.history_end.cpu().numpy().astype(np.int64),
    )  # fmt: skip
