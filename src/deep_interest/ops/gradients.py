"""Gradients of one training step: collected by an accumulator in the backward pass, then summed by row.

autograd would allocate a gradient for every use of a parameter and add them up one by one; for an embedding table
it would sort and sum sparse tensors. A `GradientAccumulator` avoids both. The training loop owns it and hands it to
the modules for the duration of a step (`training.optimizers.Optimizer.accumulate`); their operations receive it as
an argument and add to it in their backward pass. Without an accumulator the same operations return ordinary
gradients to autograd.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.kernels.embedding import add_grouped_rows, group_by_row
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty_rows
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.weights import as_one_vector


class SparseGrad(NamedTuple):
    """Gradients of some rows of a table.

    Attributes:
        codes: ``(n,)`` row indices, which may repeat.
        gradient: ``(n, W)``, of which the columns ``[column, column + D)`` belong to the table.
        column: first column.
    """

    codes: Tensor
    gradient: Tensor
    column: int = 0


class CoalescedGrad(NamedTuple):
    """The gradient of a table, summed by row.

    Attributes:
        rows: ``(k,)`` int64 row indices, all different if ``mask`` is None.
        grad: ``(k, D)``.
        mask: ``(k, 1)``, 0 for padding entries, which repeat a row with a gradient of 0, else 1; None if there
            are none.
    """

    rows: Tensor
    gradient: Tensor
    mask: Tensor | None = None


class GradientAccumulator:
    """Collects the gradients of a model's parameters in the backward pass of a training step.

    Args:
        tables: embedding tables ``(R, D)``, whose gradients are row-sparse.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        self._tables = list(tables)
        self._indices = {id(table): index for index, table in enumerate(self._tables)}
        self._sparse: list[list[SparseGrad]] = [[] for _ in self._tables]
        self._slots: list[np.ndarray | None] = [None] * len(self._tables)  # scratch buffers of `coalesce`

    def add(self, table: Tensor, grads: Sequence[SparseGrad]) -> None:
        """Add gradients of rows of a table.

        Raises:
            KeyError: the table is not one of the accumulator's.
        """
        self._sparse[self._indices[id(table)]] += grads

    @staticmethod
    def dense(parameters: Sequence[Tensor]) -> Tensor | None:
        """Return the ``.grad`` of some parameters as one vector ``(P,)`` to add to.

        None if a parameter has no ``.grad`` or does not require one, or if they are not adjacent in memory, see
        `weights.as_one_vector`.
        """
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        grads = [parameter.grad for parameter in trainable if parameter.grad is not None]
        return as_one_vector(grads) if len(grads) == len(parameters) else None

    def coalesce(self) -> list[CoalescedGrad | None]:
        """Sum the gradients of every table by row, with a sparse ``.grad`` that autograd has left, and remove them.

        Returns:
            One gradient per table, None for a table without gradients.
        """
        results: list[CoalescedGrad | None] = []
        for index, table in enumerate(self._tables):
            grads, self._sparse[index] = self._sparse[index], []
            sparse, table.grad = table.grad, None
            if sparse is not None:
                grads.append(SparseGrad(sparse._indices()[0], sparse._values()))
            if not grads:
                results.append(None)
            elif can_use_compiled(table):
                results.append(coalesce(grads, table, self._slots_of(index)))
            else:
                results.append(plain_coalesce(grads, table.shape[1]))
        return results

    def clear(self) -> None:
        """Discard all sparse gradients, after a step that was interrupted."""
        for index, table in enumerate(self._tables):
            self._sparse[index], table.grad = [], None

    def _slots_of(self, index: int) -> np.ndarray:
        slots = self._slots[index]
        if slots is None:
            slots = self._slots[index] = np.full(len(self._tables[index]), -1, np.int32)
        return slots


def coalesce(grads: Sequence[SparseGrad], table: Tensor, slots: np.ndarray) -> CoalescedGrad:
    """Sum gradients by row with compiled kernels, in the order in which they are given.

    Args:
        grads: gradients of rows.
        table: ``(R, D)``.
        slots: ``(R,)`` int32 scratch buffer, -1 everywhere before and after, so that the cost does not depend on R.

    Raises:
        InputError: a row index is outside the table.
    """
    arrays, width = as_arrays(*(each.codes for each in grads)), table.shape[1]
    codes = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    check_codes(codes, len(table), "gradient of a table")
    rows, order, starts = (np.empty(len(codes) + extra, np.int64) for extra in (0, 0, 2))
    count = group_by_row(codes, slots, rows, order, starts)
    sums, begin = empty_rows(count, width, table), 0
    for each in grads:
        arguments = each.column, begin, order, starts, sums.numpy()
        run_kernel(add_grouped_rows, *as_arrays(each.gradient), *arguments, work=len(each.codes) * width)
        begin += len(each.codes)
    return CoalescedGrad(torch.from_numpy(rows[:count]), sums)


def dense_sums(grads: Sequence[SparseGrad], table: Tensor) -> Tensor:
    """Sum gradients of rows of a small table in a gradient of its shape, ``(R, D)``."""
    total = torch.zeros_like(table)
    if not grads or not len(table):
        return total
    if can_use_compiled(table):
        rows, sums, _ = coalesce(grads, table, np.full(len(table), -1, np.int32))
        total[rows] = sums
        return total
    rows, sums, mask = plain_coalesce(grads, table.shape[1])
    return total.index_add_(0, rows, sums if mask is None else sums * mask)


def plain_coalesce(grads: Sequence[SparseGrad], width: int) -> CoalescedGrad:
    """Sum gradients by row with torch operations, for any device and dtype.

    The result has as many entries as the gradients, so that the host does not wait for the number of different rows.

    Args:
        grads: gradients of rows.
        width: D, number of columns of the table.
    """
    rows = torch.cat([each.codes for each in grads]).long()
    values = torch.cat([each.gradient[:, each.column : each.column + width] for each in grads])
    if not len(rows):
        return CoalescedGrad(rows, values)
    rows, order = rows.sort(stable=True)
    is_first = torch.ones_like(rows)
    is_first[1:] = rows[1:] != rows[:-1]
    slot = is_first.cumsum(0) - 1
    lengths = torch.zeros_like(rows).index_add_(0, slot, torch.ones_like(rows))
    sums = torch.segment_reduce(values[order], "sum", lengths=lengths, axis=0, unsafe=True, initial=0)
    mask = torch.arange(len(rows), device=rows.device) <= slot[-1]
    coalesced = rows[-1:].repeat(len(rows)).scatter_(0, slot, rows)
    return CoalescedGrad(coalesced, sums, mask.to(values).unsqueeze(1))
