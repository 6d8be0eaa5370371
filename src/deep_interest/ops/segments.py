"""Sums and softmax over the runs of a jagged batch.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.jagged import (
    add_two,
    expand_backward,
    expand_forward,
    segment_repeat_forward,
    segment_softmax_backward,
    segment_softmax_forward,
    segment_sum_forward,
)
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel


def expand(values: Tensor, runs: Jagged) -> Tensor:
    """The rows that the runs show; for runs that are their own, the rows themselves. Shape: ``(M, D) -> (N, D)``."""
    if not isinstance(runs, SharedSegments):
        return values
    if can_use_compiled(values):
        return _Expand.apply(values, runs.offsets, runs.starts)
    return values.index_select(0, runs.places)


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(offsets, starts)
        ctx.rows = len(values)
        shown = empty(values, int(offsets[-1]), values.shape[1])
        run_kernel(expand_forward, *as_arrays(values, offsets, starts, shown), work=shown.numel())
        return shown

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        offsets, starts = ctx.saved_tensors
        to_values = grad.new_zeros(ctx.rows, grad.shape[1])
        run_kernel(expand_backward, *as_arrays(grad, offsets, starts, to_values), work=grad.numel())
        return to_values, None, None


def segment_sum(values: Tensor, runs: Jagged) -> Tensor:
    """The sum of each run's rows; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    return (
        _SegmentSum.apply(values, runs.offsets)
        if can_use_compiled(values)
        else plain_segment_sum(values, runs)
    )


def segment_softmax(scores: Tensor, runs: Jagged) -> Tensor:
    """Softmax over each run. Shape: ``(N,) -> (N,)``."""
    return (
        _SegmentSoftmax.apply(scores, runs.offsets)
        if can_use_compiled(scores)
        else plain_segment_softmax(scores, runs)
    )


def segment_repeat(rows: Tensor, runs: Jagged) -> Tensor:
    """Each run's row, once for every row of the run. Shape: ``(B, D) -> (N, D)``."""
    return (
        _SegmentRepeat.apply(rows, runs.offsets)
        if can_use_compiled(rows)
        else rows.index_select(0, runs.segments)
    )


def plain_segment_sum(values: Tensor, runs: Jagged) -> Tensor:
    sums = values.new_zeros(runs.size, *values.shape[1:])
    return sums.index_add(0, runs.segments, values)


def plain_segment_softmax(scores: Tensor, runs: Jagged) -> Tensor:
    size, segments = runs.size, runs.segments
    top = scores.detach().new_full((size,), -torch.inf).scatter_reduce(0, segments, scores.detach(), "amax")
    weights = torch.exp(scores - top[segments])
    return weights / plain_segment_sum(weights, runs)[segments]


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _sum_rows(values, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (offsets,) = ctx.saved_tensors
        return _repeat_rows(grad, offsets), None


class _SegmentRepeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _repeat_rows(rows, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (offsets,) = ctx.saved_tensors
        return _sum_rows(grad, offsets), None


def _sum_rows(values: Tensor, offsets: Tensor) -> Tensor:
    sums = empty(values, len(offsets) - 1, values.shape[1])
    run_kernel(segment_sum_forward, *as_arrays(values, offsets, sums), work=values.numel())
    return sums


def _repeat_rows(rows: Tensor, offsets: Tensor) -> Tensor:
    places = empty(rows, int(offsets[-1]), rows.shape[1])
    run_kernel(segment_repeat_forward, *as_arrays(rows, offsets, places), work=places.numel())
    return places


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, offsets: Tensor) -> Tensor:
        weights = empty(scores, *scores.shape)
        run_kernel(segment_softmax_forward, *as_arrays(scores, offsets, weights), work=len(scores))
        ctx.save_for_backward(weights, offsets)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        weights, offsets = ctx.saved_tensors
        to_scores = empty(weights, *weights.shape)
        run_kernel(segment_softmax_backward, *as_arrays(weights, grad, offsets, to_scores), work=len(weights))
        return to_scores, None


def fan_out(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows for two users. Shape: ``(N, D) -> 2 x (N, D)``."""
    if rows.requires_grad and can_use_compiled(rows):
        return _FanOut.apply(rows)
    return rows, rows


class _FanOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return rows.view_as(rows), rows.view_as(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx, one: Tensor | None, other: Tensor | None):
        if one is None or other is None:
            return one if other is None else other
        total = empty(one, *one.shape)
        run_kernel(add_two, *as_arrays(one, other, total), work=2 * total.numel())
        return total
