"""Products of rows with something beside them: weighted sums, and inner products with their run's query or with the next rows.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
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


def weighted_sum(weights: Tensor, values: Tensor, runs: Jagged) -> Tensor:
    """The weighted sum of each run's rows. Shape: ``weights (N,)``, ``values (N, D)`` -> ``(B, D)``."""
    if can_use_compiled(weights, values):
        return _WeightedSum.apply(weights, values, runs.offsets)
    return plain_segment_sum(weights.unsqueeze(1) * values, runs)


def segment_dot(values: Tensor, queries: Tensor, runs: Jagged) -> Tensor:
    """The inner product of each row with its run's query. Shape: ``values (N, D)``, ``queries (B, D)`` -> ``(N,)``."""
    if can_use_compiled(values, queries):
        return _SegmentDot.apply(values, queries, runs.offsets)
    return (values * queries.index_select(0, runs.segments)).sum(1)


def shifted_dot(values: Tensor, others: Sequence[Tensor], runs: Jagged) -> tuple[Tensor, ...]:
    """The inner product of each row with the row one further on in each of ``others``; 0 for a run's last row.

    Shape: ``values``, each of ``others`` ``(N, D)`` -> ``(N,)`` each.
    """
    if can_use_compiled(values, *others):
        return _ShiftedDot.apply(values, runs.offsets, *others)
    last = (runs.distances == 0).unsqueeze(1)
    return tuple((values * other.roll(-1, 0).masked_fill(last, 0)).sum(1) for other in others)


def circular_dot(values: Tensor, others: Tensor, count: int) -> Tensor:
    """The inner products of each row with the ``count`` rows after it in others, where the first comes after the last.

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
    def backward(ctx, grad: Tensor):
        weights, values, offsets = ctx.saved_tensors
        to_weights, to_values = empty(weights, *weights.shape), empty(values, *values.shape)
        run_kernel(
            weighted_sum_backward,
            *as_arrays(weights, values, grad, offsets, to_weights, to_values),
            work=values.numel(),
        )
        return to_weights, to_values, None


class _SegmentDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, queries: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(values, queries, offsets)
        products = empty(values, len(values))
        run_kernel(segment_dot_forward, *as_arrays(values, queries, offsets, products), work=values.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, queries, offsets = ctx.saved_tensors
        to_values, to_queries = empty(values, *values.shape), empty(queries, *queries.shape)
        run_kernel(
            segment_dot_backward,
            *as_arrays(grad, values, queries, offsets, to_values, to_queries),
            work=values.numel(),
        )
        return to_values, to_queries, None


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
    def backward(ctx, *gradients: Tensor):
        values, offsets, *others = ctx.saved_tensors
        to_values = empty(values, *values.shape)
        to_others = [empty(other, *other.shape) for other in others]
        for number, (grad, other, to_other) in enumerate(zip(gradients, others, to_others, strict=True)):
            given = as_arrays(grad, values, other, offsets)
            run_kernel(
                shifted_dot_backward, *given, number > 0, *as_arrays(to_values, to_other), work=values.numel()
            )
        return to_values, None, *to_others


class _CircularDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, others: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(values, others)
        products = empty(values, len(values), count)
        run_kernel(circular_dot_forward, *as_arrays(values, others, products), work=values.numel() * count)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, others = ctx.saved_tensors
        to_values, to_others = empty(values, *values.shape), empty(others, *others.shape)
        for rows, step, out in ((others, 1, to_values), (values, -1, to_others)):
            run_kernel(
                circular_dot_backward,
                *as_arrays(grad, rows),
                step,
                *as_arrays(out),
                work=rows.numel() * grad.shape[1],
            )
        return to_values, to_others, None
