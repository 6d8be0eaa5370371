"""Gradients of tables with each touched row once; a table's size costs nothing."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from deep_interest.ops.compiled import arrays, compiled, fits, run, share

_PLACES = WeakIdKeyDictionary()  # of each table a number for every row, -1 between two merges
_SUMS = WeakIdKeyDictionary()  # of each table what its last merge found


class Piece(NamedTuple):
    """Gradients of some rows of a table.

    Attributes:
        codes: ``(n,)`` the rows, several times maybe.
        gradient: ``(n, W)``; the table's columns start at ``column``.
        column: where.
    """

    codes: Tensor
    gradient: Tensor
    column: int = 0


def merged(table: Tensor) -> Tensor:
    """The sparse gradient of a table with one entry a touched row."""
    gradient = table.grad
    assert gradient is not None
    if gradient.is_coalesced() or not fits(table):
        return gradient.coalesce()
    values, last = gradient._values(), _SUMS.get(table)
    if last is not None and values.data_ptr() == last.data_ptr() and len(values) == len(last):
        return gradient._coalesced_(True)  # a merged one: autograd forgets that
    return merge(table, [Piece(gradient._indices()[0], values)])


def merge(table: Tensor, pieces: Sequence[Piece]) -> Tensor:
    """The sum of all pieces as a sparse gradient of the table ``(R, D)``, one entry a touched row."""
    places = _PLACES.get(table)
    if places is None:
        places = _PLACES[table] = np.full(len(table), -1, np.int32)
    total, width = sum(len(piece.codes) for piece in pieces), table.shape[1]
    rows, entries = np.empty(total, np.int64), np.empty(total, np.int32)
    counts, begin = [0], 0
    for codes in arrays(*(piece.codes for piece in pieces)):
        counts.append(_number(codes, places, rows, entries[begin : begin + len(codes)], counts[-1]))
        begin += len(codes)
    count, begin = counts[-1], 0
    _forget(places, rows, count)
    sums, order, starts = np.empty((count, width), np.float32), np.empty(total, np.int32), np.empty(count + 2, np.int64)
    for piece, known in zip(pieces, counts, strict=False):
        end = begin + len(piece.codes)
        _group(entries[begin:end], order, starts)
        run(_add, *arrays(piece.gradient), piece.column, order, starts, known, sums, work=(end - begin) * width)
        begin = end
    _SUMS[table] = values = torch.from_numpy(sums)
    return torch.sparse_coo_tensor(
        torch.from_numpy(rows[:count]).unsqueeze(0), values, table.shape, is_coalesced=True, check_invariants=False
    )  # fmt: skip


@compiled
def _number(codes, places, rows, entries, count):
    """Number the different codes in the order in which they come; returns how many there are."""
    for i in range(len(codes)):
        code = codes[i]
        if places[code] < 0:
            places[code] = count
            rows[count] = code
            count += 1
        entries[i] = places[code]
    return count


@compiled
def _forget(places, rows, count):
    for i in range(count):
        places[rows[i]] = -1


@compiled
def _group(entries, order, starts):
    """The places of each entry one after the other, in their order: those of entry e are ``order[starts[e] : starts[e + 1]]``."""
    starts[:] = 0
    for entry in entries:
        starts[entry + 2] += 1
    for e in range(2, len(starts)):
        starts[e] += starts[e - 1]
    for i in range(len(entries)):
        after = entries[i] + 1
        order[starts[after]] = i
        starts[after] += 1


@compiled
def _add(gradient, column, order, starts, known, sums, part, parts):
    """Each part takes entries of its own, with about as many places; those from ``known`` on are new: they are set, not added to."""
    count, width = len(sums), sums.shape[1]
    first, last = share(starts[count], part, parts)
    e = np.searchsorted(starts[: count + 1], first)
    while e < count and starts[e] < last:
        total, begin = sums[e], starts[e]
        for i in range(begin, starts[e + 1]):
            row = gradient[order[i], column : column + width]
            if i == begin and e >= known:
                for j in range(width):
                    total[j] = row[j]
            else:
                for j in range(width):
                    total[j] += row[j]
        e += 1
