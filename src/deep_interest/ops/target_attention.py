"""Target attention: a segment's queries attend to its values by dot products, in one pass over the values."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.jagged_products import segment_dot, weighted_sum
from deep_interest.ops.kernels.target_attention import target_attention_backward, target_attention_forward
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty, empty_rows
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import expand, segment_softmax


def target_attention(values: Tensor, queries: Tensor, jagged: Jagged) -> Tensor:
    """Compute ``Σ_j softmax_j(x_j · q_h) x_j`` over the values x of each segment, for each of its queries q_h.

    Projections of keys and values need no operation of their own, since they are linear: ``(W x_j) · q = x_j · (Wᵀ q)``
    and ``Σ_j a_j W x_j = W Σ_j a_j x_j``. So the cost per value is 4 D per head, forward, whatever the width of a head.

    Args:
        values: ``(M, D)``.
        queries: ``(B, H, D)`` queries of H heads.
        jagged: B segments of the values, or shared segments.

    Returns:
        ``(B, H, D)``; 0 for an empty segment.
    """
    if can_use_compiled(values, queries):
        starts = jagged.starts if isinstance(jagged, SharedSegments) else None
        return _TargetAttention.apply(values, queries, jagged.offsets, starts, jagged.total)
    rows = expand(values, jagged)
    return torch.stack(
        [
            weighted_sum(segment_softmax(segment_dot(rows, query, jagged), jagged), rows, jagged)
            for query in queries.unbind(1)
        ],
        dim=1,
    )


class _TargetAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, queries: Tensor, offsets: Tensor, starts, total: int) -> Tensor:
        starts = offsets[:-1] if starts is None else starts
        B, H, D = queries.shape
        weights, pooled = empty(values, H, total), empty(queries, B, H, D)
        arrays = as_arrays(values, queries, offsets, starts, weights, pooled)
        run_kernel(target_attention_forward, *arrays, work=total * H * D)
        ctx.save_for_backward(values, queries, offsets, starts, weights)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        values, queries, offsets, starts, weights = ctx.saved_tensors
        grad_values = empty_rows(len(values), values.shape[1], values).zero_()
        grad_queries = empty(queries, *queries.shape)
        arrays = as_arrays(grad_output, values, queries, weights)
        segments, grads = tuple(as_arrays(offsets, starts)), as_arrays(grad_values, grad_queries)
        run_kernel(
            target_attention_backward, *arrays, segments, *grads, work=3 * weights.numel() * values.shape[1]
        )
        return grad_values, grad_queries, None, None, None
