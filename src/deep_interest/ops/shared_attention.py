"""Attention of many candidates to one history: the softmax of dot products, as a product of two matrices where no gradients are needed."""

import torch
from torch import Tensor

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.jagged_products import segment_dot
from deep_interest.ops.kernels.gru_lanes import shared_groups
from deep_interest.ops.kernels.shared_attention import shared_attention_forward
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import expand, segment_softmax


def attention_weights(values: Tensor, queries: Tensor, jagged: Jagged) -> Tensor:
    """Compute the softmax, within each segment, of the dot products of its behaviours with its query.

    Args:
        values: ``(M, D)`` behaviours.
        queries: ``(B, D)`` queries.
        jagged: B segments of the behaviours, or shared segments.

    Returns:
        ``(N,)`` for the N behaviours of all segments.
    """
    is_inference = not torch.is_grad_enabled() and isinstance(jagged, SharedSegments)
    if not is_inference or not can_use_compiled(values, queries):
        return segment_softmax(segment_dot(expand(values, jagged), queries, jagged), jagged)
    assert isinstance(jagged, SharedSegments)
    weights = empty(values, jagged.total)
    *arrays, out = as_arrays(values, queries, jagged.offsets, jagged.starts, weights)
    groups = shared_groups(*arrays[2:])
    run_kernel(
        shared_attention_forward, *arrays, groups, out, work=jagged.total * (1 + values.shape[1] // 32)
    )
    return weights
