"""Products over jagged batches: weighted sums, and dot products of values with queries or with other values.

Shapes: ``N`` values in ``B`` segments, of width ``D``; a segment may be empty.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.jagged import Jagged
from deep_interest.ops.kernels.jagged_products import (
    circular_dot_backward,
    circular_dot_forward,
    segment_dot_backward,
    segment_dot_forward,
    shifted_dot_backward,
    shifted_dot_forward,
    weighted_sum_backward,
    weighted_sum_forward,
)
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import plain_segment_sum


def weighted_sum(weights: Tensor, values: Tensor, jagged: Jagged) -> Tensor:
    """Sum the values of each segment with weights. Shape: ``weights (N,)``, ``values (N, D)`` -> ``(B, D)``."""
    if can_use_compiled(weights, values):
        return _WeightedSum.apply(weights, values, jagged.offsets)
    return plain_segment_sum(weights.unsqueeze(1) * values, jagged)


def segment_dot(values: Tensor, queries: Tensor, jagged: Jagged) -> Tensor:
    """Multiply each value with its segment's query. Shape: ``values (N, D)``, ``queries (B, D)`` -> ``(N,)``."""
    if can_use_compiled(values, queries):
        return _SegmentDot.apply(values, queries, jagged.offsets)
    return (values * queries.index_select(0, jagged.segments)).sum(1)


def shifted_dot(values: Tensor, others: Sequence[Tensor], jagged: Jagged) -> tuple[Tensor, ...]:
    """Multiply each value with the next row of its segment in each of ``others``; 0 for the last value of a segment.

    Shape: ``values``, each of ``others`` ``(N, D)`` -> ``(N,)`` each.
    """
    if can_use_compiled(values, *others):
        return _ShiftedDot.apply(values, jagged.offsets, *others)
    last = (jagged.distances == 0).unsqueeze(1)
    return tuple((values * other.roll(-1, 0).masked_fill(last, 0)).sum(1) for other in others)


def circular_dot(values: Tensor, others: Tensor, count: int) -> Tensor:
    """Multiply each value with the ``count`` rows of ``others`` after its position; the first row follows the last.

    Shape: ``values``, ``others`` ``(N, D)`` -> ``(N, count)``.
    """
    if can_use_compiled(values, others):
        return _CircularDot.apply(values, others, count)
    return torch.stack([(values * others.roll(-1 - k, 0)).sum(1) for k in range(count)], dim=1)


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(weights, values, offsets)
        sums = empty(values, len(offsets) - 1, values.shape[1])
        run_kernel(weighted_sum_forward, *as_arrays(weights, values, offsets, sums), work=values.numel())
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        weights, values, offsets = ctx.saved_tensors
        grad_weights, grad_values = empty(weights, *weights.shape), empty(values, *values.shape)
        arrays = as_arrays(weights, values, grad_output, offsets, grad_weights, grad_values)
        run_kernel(weighted_sum_backward, *arrays, work=values.numel())
        return grad_weights, grad_values, None


class _SegmentDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, queries: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(values, queries, offsets)
        products = empty(values, len(values))
        run_kernel(segment_dot_forward, *as_arrays(values, queries, offsets, products), work=values.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        values, queries, offsets = ctx.saved_tensors
        grad_values, grad_queries = empty(values, *values.shape), empty(queries, *queries.shape)
        arrays = as_arrays(grad_output, values, queries, offsets, grad_values, grad_queries)
        run_kernel(segment_dot_backward, *arrays, work=values.numel())
        return grad_values, grad_queries, None


class _ShiftedDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(values, offsets, *others)
        products = tuple(empty(values, len(values)) for _ in others)
        for other, product in zip(others, products, strict=True):
            run_kernel(shifted_dot_forward, *as_arrays(values, other, offsets, product), work=values.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor):
        values, offsets, *others = ctx.saved_tensors
        grad_values = empty(values, *values.shape)
        grad_others = [empty(other, *other.shape) for other in others]
        for index, (grad, other, grad_other) in enumerate(
            zip(grad_outputs, others, grad_others, strict=True)
        ):
            inputs, accumulate = as_arrays(grad, values, other, offsets), index > 0
            outputs = as_arrays(grad_values, grad_other)
            run_kernel(shifted_dot_backward, *inputs, accumulate, *outputs, work=values.numel())
        return grad_values, None, *grad_others


class _CircularDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, others: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(values, others)
        products = empty(values, len(values), count)
        run_kernel(circular_dot_forward, *as_arrays(values, others, products), work=values.numel() * count)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        values, others = ctx.saved_tensors
        grad_values, grad_others = empty(values, *values.shape), empty(others, *others.shape)
        for rows, direction, grad in ((others, 1, grad_values), (values, -1, grad_others)):
            work = rows.numel() * grad_output.shape[1]
            arrays = as_arrays(grad_output, rows)
            run_kernel(circular_dot_backward, *arrays, direction, *as_arrays(grad), work=work)
        return grad_values, grad_others, None
