"""Gradients of tables with each touched row once; a table's size costs nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.kernels.embedding import add_rows, group_by_row
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty_rows
from deep_interest.ops.runtime.parallel import run_kernel

_adding = False


@contextmanager
def adding_to_gradients() -> Iterator[None]:
    """Within, the backward passes of the compiled operations leave gradients where an optimiser takes them, in fewer operations:

    nets and GRUs add to their parameters' ``.grad`` by themselves, where an optimiser has laid these side by side, and lookups hand
    in the rows of tables (`rows.hand_in`). `torch.autograd.grad` sees neither.
    """
    global _adding  # noqa: PLW0603
    before, _adding = _adding, True
    try:
        yield
    finally:
        _adding = before


def is_adding() -> bool:
    """Whether that is so now."""
    return _adding


class SparseGrad(NamedTuple):
    """Gradients of some rows of a table.

    Attributes:
        codes: ``(n,)`` the rows, several times maybe.
        gradient: ``(n, W)``; the table's columns start at ``column``.
        column: where.
    """

    codes: Tensor
    gradient: Tensor
    column: int = 0


class CoalescedGrad(NamedTuple):
    """The rows of a table that a batch touched, and their gradients.

    Attributes:
        rows: ``(k,)`` int64, all different where ``real`` is None.
        gradient: ``(k, D)``.
        real: ``(k, 1)``, 0 where an entry only repeats a row, with a gradient of 0; else 1. None if all count.
    """

    rows: Tensor
    gradient: Tensor
    real: Tensor | None = None


class _TableState:
    """What is remembered of a table.

    Attributes:
        places: ``(R,)`` a number for every row, -1 between two merges.
        pieces: its gradients that backward passes have handed in.
    """

    def __init__(self, rows: int) -> None:
        self.places, self.pieces = np.full(rows, -1, np.int32), list[SparseGrad]()


_TABLE_STATES = WeakIdKeyDictionary()


def _table_state(table: Tensor) -> _TableState:
    known = _TABLE_STATES.get(table)
    if known is None:
        known = _TABLE_STATES[table] = _TableState(len(table))
    return known


def accumulate_grads(table: Tensor, pieces: Sequence[SparseGrad]) -> None:
    """Keep gradients of a table for `merged`, in place of a sparse one in ``.grad``."""
    _table_state(table).pieces += pieces


def coalesce(table: Tensor) -> CoalescedGrad | None:
    """The gradient of a table, one entry a touched row: what was handed in, and what ``.grad`` says, which is sparse; none of it is kept.

    None if there is none.
    """
    gradient, table.grad = table.grad, None
    if not can_use_compiled(table):
        return None if gradient is None else plain_coalesce(gradient._indices()[0], gradient._values())
    known = _table_state(table)
    pieces, known.pieces = known.pieces, []
    if gradient is not None:
        pieces.append(SparseGrad(gradient._indices()[0], gradient._values()))
    return coalesce_parts(table, pieces) if pieces else None


def plain_coalesce(rows: Tensor, values: Tensor) -> CoalescedGrad:
    """As `merged`, in torch's operations, for any device: as many entries as there were, so that nothing waits for their number."""
    if not len(rows):
        return CoalescedGrad(rows, values)
    rows, order = rows.sort(stable=True)
    first = torch.ones_like(rows)
    first[1:] = rows[1:] != rows[:-1]
    place = first.cumsum(0) - 1
    lengths = torch.zeros_like(rows).index_add_(0, place, torch.ones_like(rows))
    sums = torch.segment_reduce(values[order], "sum", lengths=lengths, axis=0, unsafe=True, initial=0)
    real = torch.arange(len(rows), device=rows.device) <= place[-1]
    return CoalescedGrad(
        rows[-1:].repeat(len(rows)).scatter_(0, place, rows), sums, real.to(values).unsqueeze(1)
    )


def coalesce_parts(table: Tensor, pieces: Sequence[SparseGrad]) -> CoalescedGrad:
    """The sum of all pieces, of a table ``(R, D)``.

    Raises:
        InputError: a piece has a row that the table does not have.
    """
    codes, width = as_arrays(*(piece.codes for piece in pieces)), table.shape[1]
    codes = np.concatenate(codes) if len(codes) > 1 else codes[0]
    check_codes(codes, len(table), "gradient of a table")
    rows, order, starts = (np.empty(len(codes) + more, np.int64) for more in (0, 0, 2))
    count = group_by_row(codes, _table_state(table).places, rows, order, starts)
    sums, begin = empty_rows(count, width, table), 0
    for piece in pieces:
        work = len(piece.codes) * width
        run_kernel(
            add_rows, *as_arrays(piece.gradient), piece.column, begin, order, starts, sums.numpy(), work=work
        )
        begin += len(piece.codes)
    return CoalescedGrad(torch.from_numpy(rows[:count]), sums)
