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
        return gradient._coalesced_(True)  # a merged one
    return merge(table, [Piece(gradient._indices()[0], values)])._coalesced_(True)


def merge(table: Tensor, pieces: Sequence[Piece]) -> Tensor:
    """The sum of all pieces as a sparse gradient of the table ``(R, D)``, one entry a touched row.

    It does not say so of itself: torch would take a sum of two such gradients for one, too.
    """
    places = _PLACES.get(table)
    if places is None:
        places = _PLACES[table] = np.full(len(table), -1, np.int32)
    codes, width = arrays(*(piece.codes for piece in pieces)), table.shape[1]
    codes = np.concatenate(codes) if len(codes) > 1 else codes[0]
    rows, order, starts = (np.empty(len(codes) + more, np.int64) for more in (0, 0, 2))
    count = _group(codes, places, rows, order, starts)
    sums, begin = np.empty((count, width), np.float32), 0
    for piece in pieces:
        work = len(piece.codes) * width
        run(_add, *arrays(piece.gradient), piece.column, begin, order, starts, sums, work=work)
        begin += len(piece.codes)
    _SUMS[table] = values = torch.from_numpy(sums)
    return torch.sparse_coo_tensor(
        torch.from_numpy(rows[:count]).unsqueeze(0), values, table.shape, check_invariants=False
    )  # fmt: skip


@compiled
def _group(codes, places, rows, order, starts):
    """Number the different codes in the order in which they come, and sort the entries by them.

    Row e, whose code is ``rows[e]``, has the entries ``order[starts[e] : starts[e + 1]]``, in their order.

    Returns:
        How many rows there are.
    """
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if places[code] < 0:
            places[code] = count
            rows[count] = code
            starts[count + 2] = 0
            count += 1
        starts[places[code] + 2] += 1
    starts[0] = starts[1] = 0
    for e in range(1, count):
        starts[e + 1] += starts[e]
    for i in range(len(codes)):
        after = places[codes[i]] + 1
        order[starts[after]] = i
        starts[after] += 1
    for e in range(count):
        places[rows[e]] = -1
    return count


@compiled
def _add(gradient, column, begin, order, starts, sums, part, parts):
    """Add the entries from ``begin`` on, whose gradients these are; a row's first entry is set.

    Each part takes rows of its own, with about as many entries, so that no two threads write one.
    """
    count, width = len(sums), sums.shape[1]
    first, last = share(starts[count], part, parts)
    e = np.searchsorted(starts[: count + 1], first)
    while e < count and starts[e] < last:
        total = sums[e]
        for k in range(starts[e], starts[e + 1]):
            i = order[k] - begin
            if i < 0 or i >= len(gradient):
                continue
            row = gradient[i, column : column + width]
            if k == starts[e]:
                for j in range(width):
                    total[j] = row[j]
            else:
                for j in range(width):
                    total[j] += row[j]
        e += 1
