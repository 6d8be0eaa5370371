"""Operations on the segments of a jagged batch: sum, softmax, repeat, expand.

Shapes: ``N`` values in ``B`` segments, of width ``D``; a segment may be empty.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.jagged import (
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


def segment_sum(values: Tensor, jagged: Jagged) -> Tensor:
    """Sum the values of each segment; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    if can_use_compiled(values):
        return _SegmentSum.apply(values, jagged.offsets)
    return plain_segment_sum(values, jagged)


def segment_softmax(scores: Tensor, jagged: Jagged) -> Tensor:
    """Compute the softmax of the scores within each segment. Shape: ``(N,) -> (N,)``."""
    if can_use_compiled(scores):
        return _SegmentSoftmax.apply(scores, jagged.offsets)
    return plain_segment_softmax(scores, jagged)


def segment_repeat(rows: Tensor, jagged: Jagged) -> Tensor:
    """Repeat each segment's row for every value of the segment. Shape: ``(B, D) -> (N, D)``."""
    if can_use_compiled(rows):
        return _SegmentRepeat.apply(rows, jagged.offsets)
    return rows.index_select(0, jagged.segments)


def expand(values: Tensor, jagged: Jagged) -> Tensor:
    """Gather the values of shared segments, once for every segment.

    For segments that are not shared, the values themselves are returned.

    Shape: ``(M, D) -> (N, D)``.
    """
    if not isinstance(jagged, SharedSegments):
        return values
    if can_use_compiled(values):
        return _Expand.apply(values, jagged.offsets, jagged.starts)
    return values.index_select(0, jagged.positions)


def plain_segment_sum(values: Tensor, jagged: Jagged) -> Tensor:
    """Compute `segment_sum` with torch operations, for any device and dtype."""
    sums = values.new_zeros(jagged.size, *values.shape[1:])
    return sums.index_add(0, jagged.segments, values)


def plain_segment_softmax(scores: Tensor, jagged: Jagged) -> Tensor:
    """Compute `segment_softmax` with torch operations, for any device and dtype."""
    size, segments = jagged.size, jagged.segments
    lowest = scores.detach().new_full((size,), -torch.inf)
    top = lowest.scatter_reduce(0, segments, scores.detach(), "amax")
    weights = torch.exp(scores - top[segments])
    return weights / plain_segment_sum(weights, jagged)[segments]


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _sum(values, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        (offsets,) = ctx.saved_tensors
        return _repeat(grad_output, offsets), None


class _SegmentRepeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _repeat(rows, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        (offsets,) = ctx.saved_tensors
        return _sum(grad_output, offsets), None


def _sum(values: Tensor, offsets: Tensor) -> Tensor:
    sums = empty(values, len(offsets) - 1, values.shape[1])
    run_kernel(segment_sum_forward, *as_arrays(values, offsets, sums), work=values.numel())
    return sums


def _repeat(rows: Tensor, offsets: Tensor) -> Tensor:
    repeated = empty(rows, int(offsets[-1]), rows.shape[1])
    run_kernel(segment_repeat_forward, *as_arrays(rows, offsets, repeated), work=repeated.numel())
    return repeated


class _SegmentSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, offsets: Tensor) -> Tensor:
        weights = empty(scores, *scores.shape)
        run_kernel(segment_softmax_forward, *as_arrays(scores, offsets, weights), work=len(scores))
        ctx.save_for_backward(weights, offsets)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        weights, offsets = ctx.saved_tensors
        grad_scores = empty(weights, *weights.shape)
        arrays = as_arrays(weights, grad_output, offsets, grad_scores)
        run_kernel(segment_softmax_backward, *arrays, work=len(weights))
        return grad_scores, None


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(offsets, starts)
        ctx.rows = len(values)
        gathered = empty(values, int(offsets[-1]), values.shape[1])
        run_kernel(expand_forward, *as_arrays(values, offsets, starts, gathered), work=gathered.numel())
        return gathered

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        offsets, starts = ctx.saved_tensors
        grad_values = grad_output.new_zeros(ctx.rows, grad_output.shape[1])
        arrays = as_arrays(grad_output, offsets, starts, grad_values)
        run_kernel(expand_backward, *arrays, work=grad_output.numel())
        return grad_values, None, None
