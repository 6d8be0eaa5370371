"""Gradients of tables with each touched row once; a table's size costs nothing."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.compiled import arrays, compiled, fits, room_for, run, share
from deep_interest.ops.prefetch import AHEAD, fetch


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


class Touched(NamedTuple):
    """The rows of a table that a batch touched, and their gradients.

    Attributes:
        rows: ``(k,)`` int64, all different where ``real`` is None.
        gradient: ``(k, D)``.
        real: ``(k, 1)``, 0 where an entry only repeats a row, with a gradient of 0; else 1. None if all count.
    """

    rows: Tensor
    gradient: Tensor
    real: Tensor | None = None


class _Known:
    """What is remembered of a table.

    Attributes:
        places: ``(R,)`` a number for every row, -1 between two merges.
        pieces: its gradients that backward passes have handed in.
    """

    def __init__(self, rows: int) -> None:
        self.places, self.pieces = np.full(rows, -1, np.int32), list[Piece]()


_KNOWN = WeakIdKeyDictionary()


def _known(table: Tensor) -> _Known:
    known = _KNOWN.get(table)
    if known is None:
        known = _KNOWN[table] = _Known(len(table))
    return known


def hand_in(table: Tensor, pieces: Sequence[Piece]) -> None:
    """Keep gradients of a table for `merged`, in place of a sparse one in ``.grad``."""
    _known(table).pieces += pieces


def merged(table: Tensor) -> Touched | None:
    """The gradient of a table, one entry a touched row: what was handed in, and what ``.grad`` says, which is sparse; none of it is kept.

    None if there is none.
    """
    gradient, table.grad = table.grad, None
    if not fits(table):
        return None if gradient is None else plain_merged(gradient._indices()[0], gradient._values())
    known = _known(table)
    pieces, known.pieces = known.pieces, []
    if gradient is not None:
        pieces.append(Piece(gradient._indices()[0], gradient._values()))
    return merge(table, pieces) if pieces else None


def plain_merged(rows: Tensor, values: Tensor) -> Touched:
    """As `merged`, in torch's operations, for any device: as many entries as there were, so that nothing waits for their number."""
    if not len(rows):
        return Touched(rows, values)
    rows, order = rows.sort(stable=True)
    first = torch.ones_like(rows)
    first[1:] = rows[1:] != rows[:-1]
    place = first.cumsum(0) - 1
    lengths = torch.zeros_like(rows).index_add_(0, place, torch.ones_like(rows))
    sums = torch.segment_reduce(values[order], "sum", lengths=lengths, axis=0, unsafe=True, initial=0)
    real = torch.arange(len(rows), device=rows.device) <= place[-1]
    return Touched(rows[-1:].repeat(len(rows)).scatter_(0, place, rows), sums, real.to(values).unsqueeze(1))


def merge(table: Tensor, pieces: Sequence[Piece]) -> Touched:
    """The sum of all pieces, of a table ``(R, D)``.

    Raises:
        InputError: a piece has a row that the table does not have.
    """
    codes, width = arrays(*(piece.codes for piece in pieces)), table.shape[1]
    codes = np.concatenate(codes) if len(codes) > 1 else codes[0]
    check_codes(codes, len(table), "gradient of a table")
    rows, order, starts = (np.empty(len(codes) + more, np.int64) for more in (0, 0, 2))
    count = _group(codes, _known(table).places, rows, order, starts)
    sums, begin = room_for(count, width, table), 0
    for piece in pieces:
        work = len(piece.codes) * width
        run(_add, *arrays(piece.gradient), piece.column, begin, order, starts, sums.numpy(), work=work)
        begin += len(piece.codes)
    return Touched(torch.from_numpy(rows[:count]), sums)


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
            if k + AHEAD < last and begin <= order[k + AHEAD] < begin + len(gradient):
                fetch(gradient, order[k + AHEAD] - begin)
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
