"""Rows of histories where the pairs of history and candidate need them."""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, exact, fits, run
from deep_interest.ops.runs import Runs, Views
from deep_interest.ops.scratch import empty


def view(values: Tensor, runs: Runs) -> Tensor:
    """The rows that the runs show; for runs that are their own, the rows themselves. Shape: ``(M, D) -> (N, D)``."""
    if not isinstance(runs, Views):
        return values
    if fits(values):
        return _View.apply(values, runs.offsets, runs.starts)
    return values.index_select(0, runs.places)


class _View(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(offsets, starts)
        ctx.rows = len(values)
        shown = empty(values, int(offsets[-1]), values.shape[1])
        run(_show, *arrays(values, offsets, starts, shown), work=shown.numel())
        return shown

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        offsets, starts = ctx.saved_tensors
        to_values = grad.new_zeros(ctx.rows, grad.shape[1])
        run(_gather_back, *arrays(grad, offsets, starts, to_values), work=grad.numel())
        return to_values, None, None


@compiled
def _show(values, offsets, starts, shown, part, parts):
    first, last = share_of_runs(offsets, part, parts)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = values[p + shift], shown[p]
            for j in range(len(out)):
                out[j] = row[j]


@compiled
def _gather_back(grad, offsets, starts, to_values, part, parts):
    first, last = share_of_views(offsets, starts, part, parts)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = grad[p], to_values[p + shift]
            for j in range(len(out)):
                out[j] += row[j]


@exact
def share_of_runs(offsets, part, parts):
    """The runs of one part, first and last + 1: all parts have about as many places."""
    return _run_at(offsets, part, parts), _run_at(offsets, part + 1, parts)


@exact
def _run_at(offsets, part, parts):
    runs = len(offsets) - 1
    return np.searchsorted(offsets[:runs], offsets[runs] * part // parts) if part < parts else runs


@exact
def share_of_views(offsets, starts, part, parts):
    """As `share_of_runs`, with all those of equal starts in one part, so that no two threads add to one row."""
    first, last = share_of_runs(offsets, part, parts)
    return _whole(starts, first), _whole(starts, last)


@exact
def _whole(starts, b):
    while 0 < b < len(starts) and starts[b] == starts[b - 1]:
        b += 1
    return b
