"""DIN's attention: an MLP over pairs of behaviour and query, and the sum of the behaviours by its scores.

Both run in one pass while the behaviours are in the cache.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.attention_inference import RepeatedColumns, attention_pool_without_gradients
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.kernels.attention import (
    PairGrads,
    attention_pool_backward,
    attention_pool_forward,
    pack_pair_backward,
    pack_pair_forward,
    pair_mlp_backward,
    pair_mlp_forward,
)
from deep_interest.ops.kernels.mlp_chunk import MLPParams
from deep_interest.ops.kernels.pair_layer import Pairs
from deep_interest.ops.kernels.pooling import PoolGrad
from deep_interest.ops.mlp import Layers, MLPShape, activate, mlp
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty, empty_rows
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import expand, segment_softmax
from deep_interest.ops.weights import GradientSums, flatten


def pair_mlp(
    values: Tensor,
    queries: Tensor,
    layers: Layers,
    jagged: Jagged,
    *,
    accumulator: GradientAccumulator | None = None,
) -> Tensor:
    """Apply an MLP to pairs of each behaviour e and its segment's query v (DIN eq. 3).

    Its input is ``[e; v; e∘v]`` or ``[e; v; e∘v; e-v]``.

    The first layer is factorised, ``W [e; v; e∘v; e-v] = (W1 + W4) e + (W2 - W4) v + W3 (e∘v)``, so that the part
    of the query is computed once per segment.

    Args:
        values: ``(M, D)`` behaviours.
        queries: ``(B, D)`` queries.
        layers: layers of the MLP, the first with a weight ``(O, 3 D)`` or ``(O, 4 D)``.
        jagged: B segments of the behaviours, or shared segments.
        accumulator: where to add the gradients of the parameters; None to return them to autograd.

    Returns:
        ``(N, O)`` for the N behaviours of all segments, O the width of the last layer.
    """
    first, *rest = layers
    if can_use_compiled(values, queries, first.weight):
        shape, parameters = layers.shape, layers.parameters
        return _PairMLP.apply(values, queries, *_segments(jagged), shape, accumulator, *parameters)
    w1, w2, w3, *w4 = first.weight.split(values.shape[1], dim=1)
    for difference in w4:
        w1, w2 = w1 + difference, w2 - difference
    rows, query = expand(values, jagged), queries.index_select(0, jagged.segments)
    constant = torch.addmm(first.bias, queries, w2.t()).index_select(0, jagged.segments)
    hidden = activate(constant + rows @ w1.t() + (rows * query) @ w3.t(), first)
    return mlp(hidden, Layers(rest), accumulator=accumulator) if rest else hidden


def attention_pool(
    values: Tensor,
    queries: Tensor,
    layers: Layers,
    jagged: Jagged,
    *,
    softmax_scale: float | None = None,
    accumulator: GradientAccumulator | None = None,
    repeated: Sequence[RepeatedColumns] = (),
) -> Tensor:
    """Compute ``Σ_j a(e_j, v) e_j`` over the behaviours e of each segment with its query v (DIN eq. 3).

    Args:
        values: ``(M, D)`` behaviours.
        queries: ``(B, D)`` queries.
        layers: layers of a as in `pair_mlp`; the last has one output.
        jagged: B segments of the behaviours, or shared segments.
        softmax_scale: the weights are the softmax within the segment of this times the scores; None for the
            scores themselves.
        accumulator: where to add the gradients of the parameters; None to return them to autograd.
        repeated: columns with few distinct values; used only where no gradients are needed.

    Returns:
        ``(B, D)``; 0 for an empty segment.
    """
    if can_use_compiled(values, queries, layers[0].weight):
        scale = 0.0 if softmax_scale is None else softmax_scale
        if not torch.is_grad_enabled():
            return attention_pool_without_gradients(
                values, queries, layers, jagged, scale=scale, repeated=repeated
            )
        shape, parameters = layers.shape, layers.parameters
        return _AttentionPool.apply(
            values, queries, *_segments(jagged), scale, shape, accumulator, *parameters
        )
    scores = pair_mlp(values, queries, layers, jagged, accumulator=accumulator).squeeze(-1)
    return pool_by_scores(scores, values, jagged, softmax_scale=softmax_scale)


def pool_by_scores(scores: Tensor, values: Tensor, jagged: Jagged, *, softmax_scale: float | None) -> Tensor:
    """Compute `attention_pool` from scores ``(N,)`` of the behaviours of all segments."""
    weights = scores if softmax_scale is None else segment_softmax(scores * softmax_scale, jagged)
    return weighted_sum(weights, expand(values, jagged), jagged)


def _segments(jagged: Jagged) -> tuple[Tensor, Tensor | None, int]:
    """Return the offsets, the starts of shared segments, and the number of values."""
    return jagged.offsets, jagged.starts if isinstance(jagged, SharedSegments) else None, jagged.total


class _PairMLP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, values, queries, offsets, starts, total: int, shape: MLPShape, accumulator, *parameters
    ) -> Tensor:
        inputs, outputs = _prepare(
            ctx, values, queries, (offsets, starts, total), shape, accumulator, parameters
        )
        arguments = _kernel_arguments(pack_pair_forward, inputs, shape)
        run_kernel(pair_mlp_forward, *arguments, *as_arrays(*outputs), work=total * shape.work)
        ctx.save_for_backward(*inputs, outputs[0])
        return outputs[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        *inputs, pre_activations = ctx.saved_tensors
        work, (grad_values, grad_queries, sums) = _gradient_buffers(ctx, pre_activations)
        arguments = _kernel_arguments(pack_pair_backward, inputs, ctx.shape)
        grads = PairGrads(*as_arrays(grad_values, grad_queries, sums.partitions))
        arrays = as_arrays(grad_output), as_arrays(pre_activations)
        run_kernel(pair_mlp_backward, *arrays[0], *arguments, *arrays[1], grads, work=work)
        return grad_values, grad_queries, None, None, None, None, None, *sums.gradients()


class _AttentionPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, values, queries, offsets, starts, total: int, scale: float, shape: MLPShape, accumulator, *parameters
    ) -> Tensor:  # fmt: skip
        inputs, (pre_activations, weights) = _prepare(
            ctx, values, queries, (offsets, starts, total), shape, accumulator, parameters
        )
        pooled = empty(values, len(queries), values.shape[1])
        arguments = _kernel_arguments(pack_pair_forward, inputs, shape)
        outputs = as_arrays(pre_activations, weights, pooled)
        run_kernel(attention_pool_forward, *arguments, np.float32(scale), *outputs, work=total * shape.work)
        ctx.save_for_backward(*inputs, pre_activations, weights)
        ctx.scale = np.float32(scale)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        *inputs, pre_activations, weights = ctx.saved_tensors
        work, (grad_values, grad_queries, sums) = _gradient_buffers(ctx, pre_activations)
        arguments = _kernel_arguments(pack_pair_backward, inputs, ctx.shape)
        saved = tuple(as_arrays(pre_activations, empty(weights, *weights.shape)))
        grads = PairGrads(*as_arrays(grad_values, grad_queries, sums.partitions))
        pool = PoolGrad(*as_arrays(grad_output), ctx.scale, *as_arrays(weights))
        run_kernel(attention_pool_backward, pool, *arguments, saved, grads, work=work)
        return grad_values, grad_queries, None, None, None, None, None, None, *sums.gradients()


def _prepare(
    ctx, values, queries, segments, shape: MLPShape, accumulator, parameters
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors that kernels read, and buffers for the pre-activations and the output of the MLP."""
    offsets, starts, total = segments
    ctx.own_segments, ctx.shape = starts is None, shape
    ctx.accumulator, ctx.parameters = accumulator, parameters
    starts = offsets[:-1] if starts is None else starts
    outputs = [empty_rows(total, width, values) for width in (shape.hidden, shape.widths[-1])]
    return [values, queries, offsets, starts, flatten(parameters)], outputs


def _kernel_arguments(
    pack: Callable, inputs: Sequence[Tensor], shape: MLPShape
) -> tuple[Pairs, MLPParams, tuple]:
    """Return the pairs, the parameters and the packed weights."""
    *pairs, values = inputs
    params = shape.params(values)
    return Pairs(*as_arrays(*pairs)), params, pack(params, pairs[0].shape[1])


def _gradient_buffers(ctx, pre_activations: Tensor) -> tuple[int, tuple[Tensor, Tensor, GradientSums]]:
    """Return the work of the backward pass, and buffers for the gradients of values, queries and parameters."""
    values, queries = ctx.saved_tensors[:2]
    work = len(pre_activations) * ctx.shape.work
    grad_values = (
        empty_rows(len(values), values.shape[1], values)
        if ctx.own_segments
        else values.new_zeros(values.shape)
    )
    return work, (
        grad_values,
        empty(queries, *queries.shape),
        GradientSums.make(ctx.parameters, work, ctx.accumulator),
    )
