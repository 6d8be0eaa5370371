"""n_j: the number of training samples in which an id occurs (DIN §5.1)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from deep_interest.logs.schema import Group
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table
from deep_interest.ops.jagged import SharedSegments
from deep_interest.training.data import SampleSet
from deep_interest.training.regularizers import occurrence_key

_GATHERED = 1 << 14  # samples whose histories are gathered at once
_PART = 1 << 23  # samples that are counted at once
BLOCK_SIZE = 1 << 20  # behaviours whose occurrences are counted at once


def occurrences_of(tables: list[Table], samples: SampleSet) -> dict[str, Tensor]:
    """Count n_j for all tables except those of crossed features: ``{key: (rows,) int64}`` by `regularizers.occurrence_key`.

    Args:
        tables: embedding tables.
        samples: training samples.
    """
    return {
        occurrence_key(table): torch.from_numpy(_occurrences(samples, table)).to(samples.labels.device)
        for table in tables
        if table.is_counted
    }


def _occurrences(samples: SampleSet, table: Table) -> np.ndarray:
    """Sum the occurrences in parts of the samples, so that memory is bounded."""
    total = np.zeros(table.num_embeddings, np.int64)
    for begin in range(0, len(samples), _PART):
        total += _occurrences_in(samples.part(begin, begin + _PART), table)
    return total


def _occurrences_in(samples: SampleSet, table: Table) -> np.ndarray:
    if table.sequences or samples.history_begin is not None:
        return gathered_samples_with_each_id(samples, table)
    return samples_with_each_id(_as_rows(samples, table), table.field, table.groups, table.num_embeddings)


def gathered_samples_with_each_id(samples: SampleSet, table: Table) -> np.ndarray:
    """Count the samples in which each row of a table occurs, by gathering their histories block by block.

    It costs as much as one pass over the samples, and serves what `samples_with_each_id` does not: further sequences of behaviours,
    and histories that begin at a given day.

    Returns:
        ``(rows,)`` int64.
    """
    samples, total = samples.on_host, np.zeros(table.num_embeddings, np.int64)
    for rows in torch.arange(len(samples)).split(_GATHERED):
        batch = samples.batch(rows)
        parts: list[tuple[Batch, Group]] = [(batch, group) for group in table.groups]
        parts += [(batch.sequences[name], "behavior") for name in table.sequences]
        pairs = [_pairs(samples, part, table, group) for part, group in parts]
        total += np.bincount(
            np.unique(np.concatenate(pairs)) % table.num_embeddings, minlength=table.num_embeddings
        )
    return total


def _pairs(samples: SampleSet, batch: Batch, table: Table, group: Group) -> np.ndarray:
    """Return ``sample · rows + row`` of every occurrence in a feature group of a batch."""
    codes = batch.codes(group, table.field)
    owner = np.arange(len(codes))
    if group == "behavior":
        runs = batch.pairs
        owner = runs.segments.numpy()
        codes = codes[runs.positions] if isinstance(runs, SharedSegments) else codes
    position, values = _values(samples, table.field, codes)
    return (
        owner[position].astype(np.int64) * table.num_embeddings
        + table.rows_of(torch.from_numpy(values)).numpy()
    )


def _as_rows(samples: SampleSet, table: Table) -> SampleSet:
    """Replace the codes of a table's field by the rows that they look up."""
    if not (table.keep_top or table.dense):
        return samples
    store, name = samples.store, table.field

    def as_rows(codes: dict[str, Tensor]) -> dict[str, Tensor]:
        return codes | {name: table.rows_of(codes[name])} if name in codes else codes

    log = replace(store.log, fields=as_rows(store.history))
    store = replace(store, log=log, items=as_rows(store.items), users=as_rows(store.users))
    return replace(samples, store=store, context=as_rows(samples.context))


def samples_with_each_id(samples: SampleSet, field: str, groups: tuple[Group, ...], size: int) -> np.ndarray:
    """Count the samples in which each code of a field occurs, as candidate, in the history, or as another feature.

    A sample counts once for an id, however often the id occurs in its history: DIN eq. 4 sums ``I(x_j ≠ 0) / n_j`` over
    the samples, which is the plain L2 norm for that ``n_j``. Histories are not materialised.

    Args:
        samples: training samples; a history has at most ``max_len`` behaviours.
        field: name of the field.
        groups: feature groups that contain the field.
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
    """Return pairs of a sample index and one of its codes, one pair for each value."""
    store, user = samples.store, samples.user
    if group == "item":
        codes = store.items[field][samples.item]
    else:
        codes = store.users[field][user] if group == "profile" else samples.context[field]
    return _values(samples, field, codes)


def _values(samples: SampleSet, field: str, codes: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of codes and the codes; for a multi-hot field, one pair for each value of a value set."""
    if field not in samples.store.value_sets:
        return np.arange(len(codes)), codes.numpy()
    values, runs = samples.store.value_sets[field].of(codes, field)
    return runs.segments.numpy(), values.numpy()


def _history_counts(samples: SampleSet, field: str, size: int) -> np.ndarray:
    """Count the samples whose history contains an id, at the newest behaviour with that id in the history."""
    offsets, user, end = _histories(samples)
    counts = np.zeros(size, np.int64)
    for block in _blocks(offsets):
        first, last = block
        own, starts = _samples_of(user, block), offsets[first : last + 1]
        if not len(own):
            continue
        shifted = starts - starts[0] + np.arange(len(starts))
        ends = np.bincount(shifted[user[own] - first] + end[own], minlength=shifted[-1])
        np.cumsum(ends, out=ends)  # samples by user and history end 0 … n_u, cumulated
        owner, row, codes = _behaviors(samples, field, offsets, block)
        owner -= first
        position = row - starts[owner]
        order = np.lexsort((position, codes, owner))
        repeated = (owner[order][1:] == owner[order][:-1]) & (codes[order][1:] == codes[order][:-1])
        until = np.diff(starts)[
            owner
        ]  # last history end for which this is the newest behaviour with its code
        until[order[:-1][repeated]] = position[order[1:][repeated]]
        until = np.minimum(until, position + samples.max_len)
        containing = ends[shifted[owner] + until] - ends[shifted[owner] + position]
        counts += np.bincount(codes, weights=containing, minlength=size).astype(np.int64)
    return counts


def _in_history(samples: SampleSet, field: str, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return whether the histories of the samples ``rows (k,)`` contain the codes ``wanted (k,)``, ``(k,)`` bool."""
    offsets, user, end = _histories(samples)
    contained = np.zeros(len(rows), bool)
    for block in _blocks(offsets):
        chosen = _samples_of(user[rows], block)
        if not len(chosen):
            continue
        own = rows[chosen]
        begin = offsets[user[own]] + np.maximum(end[own] - samples.max_len, 0)
        log = _behaviors(samples, field, offsets, block)
        contained[chosen] = _contains(log, user[own], wanted[chosen], begin, offsets[user[own]] + end[own])
    return contained


def _contains(
    log: tuple[np.ndarray, np.ndarray, np.ndarray], user: np.ndarray, wanted: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:  # fmt: skip
    """Return whether the rows ``[begin, end)`` of the log contain the code ``wanted``, ``(k,)`` bool."""
    owner, row, codes = log
    if not len(row):
        return np.zeros(len(user), bool)
    first, length = (
        row[0],
        row[-1] - row[0] + 2,
    )  # rows relative to the block's first: products stay below 2^63
    span = np.int64(max(int(codes.max()), int(wanted.max(initial=0))) + 1)
    pairs, pair = np.unique(owner * span + codes, return_inverse=True)  # (user, code)
    keys = np.sort(pair * length + (row - first))
    query = user * span + wanted
    pair = np.searchsorted(pairs, query)
    exists = pairs[np.minimum(pair, len(pairs) - 1)] == query
    newest = (
        np.searchsorted(keys, pair * length + (end - first)) - 1
    )  # of the pair, before the end of the history
    return exists & (newest >= 0) & (keys[newest] >= pair * length + (begin - first))


def _histories(samples: SampleSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the offsets of the log, and segments and history ends of the samples."""
    return samples.store.offsets.numpy(), samples.segment.numpy(), samples.history_end.numpy()


def _samples_of(user: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """Return the indices of the samples whose users are in a block."""
    return np.flatnonzero((user >= block[0]) & (user < block[1]))


def _blocks(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield first user and last + 1 of blocks with a bounded number of behaviours, so that memory is bounded."""
    first, users = 0, len(offsets) - 1
    while first < users:
        fitting = int(np.searchsorted(offsets, offsets[first] + BLOCK_SIZE, side="right")) - 1
        yield first, (first := max(fitting, first + 1))


def _behaviors(
    samples: SampleSet, field: str, offsets: np.ndarray, block: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users, rows of the log and codes of the behaviours in a block, one for each value."""
    first, last = block
    begin = offsets[first]
    row, codes = _values(samples, field, samples.store.history[field][begin : offsets[last]])
    owner = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))[row]
    return owner, row + begin, codes
