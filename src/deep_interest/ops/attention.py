"""A net over pairs of a row and its run's query: DIN's activation unit, in one pass while the rows are in the cache."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.kernels.attention import (
    attention_pool_backward,
    attention_pool_forward,
    pack_pair_backward,
    pack_pair_forward,
    pair_mlp_backward,
    pair_mlp_forward,
)
from deep_interest.ops.mlp import Layers, MLPShape, activate, mlp
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty, empty_rows
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import expand, segment_softmax
from deep_interest.ops.weights import GradientSums, flatten


def pair_mlp(values: Tensor, queries: Tensor, layers: Layers, runs: Jagged) -> Tensor:
    """A net over ``[e; v; e∘v]``, or ``[e; v; e∘v; e-v]``, of each row e and its run's query v.

    The first layer is factorised: ``W [e; v; e∘v; e-v] = (W1 + W4) e + (W2 - W4) v + W3 (e∘v)``, so that the query's part
    is computed once a run.

    Args:
        values: ``(M, D)`` rows e.
        queries: ``(B, D)`` the runs' v.
        layers: the first one's weight is ``(O, 3 D)`` or ``(O, 4 D)``.
        runs: B runs of the rows, or views of them.

    Returns:
        ``(N, O of the last)``, a row for each place of the runs.
    """
    first, *rest = layers
    if can_use_compiled(values, queries, first.weight):
        return _PairMLP.apply(values, queries, *_segment_arguments(runs), layers.shape, *layers.parameters)
    of_row, of_query, of_product, *of_difference = first.weight.split(values.shape[1], dim=1)
    for difference in of_difference:
        of_row, of_query = of_row + difference, of_query - difference
    rows, query = expand(values, runs), queries.index_select(0, runs.segments)
    constant = torch.addmm(first.bias, queries, of_query.t()).index_select(0, runs.segments)
    hidden = constant + rows @ of_row.t() + (rows * query) @ of_product.t()
    hidden = activate(hidden, first)
    return mlp(hidden, Layers(rest)) if rest else hidden


def _segment_arguments(runs: Jagged) -> tuple[Tensor, Tensor | None, int]:
    """Offsets, starts if the runs are views, and how many places there are."""
    return runs.offsets, runs.starts if isinstance(runs, SharedSegments) else None, runs.total


class _PairMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, queries, offsets, starts, places: int, shape: MLPShape, *parameters) -> Tensor:
        inputs, rows = _prepare(ctx, values, queries, offsets, starts, places, shape, parameters)
        given = _kernel_arguments(pack_pair_forward, inputs, shape)
        run_kernel(pair_mlp_forward, *given, *as_arrays(*rows), work=len(rows[0]) * shape.work)
        ctx.save_for_backward(*inputs, rows[0])
        return rows[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        *inputs, before = ctx.saved_tensors
        work, (to_values, to_queries, sums) = len(before) * ctx.shape.work, _gradient_buffers(ctx, before)
        given = _kernel_arguments(pack_pair_backward, inputs, ctx.shape)
        rows = as_arrays(before, to_values, to_queries, sums.parts)
        run_kernel(pair_mlp_backward, *as_arrays(grad), *given, *rows, work=work)
        return to_values, to_queries, None, None, None, None, *sums.gradients()


def _prepare(
    ctx, values, queries, offsets, starts, places: int, shape: MLPShape, parameters
) -> tuple[list[Tensor], list[Tensor]]:
    """What `pairs_forward` takes: its inputs, and room for the values before the activations and for the result."""
    ctx.all_shown, ctx.shape, ctx.parameters = starts is None, shape, parameters
    starts = offsets[:-1] if starts is None else starts
    rows = [empty_rows(places, width, values) for width in (shape.inner, shape.widths[-1])]
    return [values, queries, offsets, starts, flatten(parameters)], rows


def _kernel_arguments(rights_of: Callable, inputs: Sequence[Tensor], shape: MLPShape) -> tuple:
    """The first arguments of `pairs_forward`, with `forward_rights`, or of `pairs_backward`, with `backward_rights`."""
    values, *others, numbers = as_arrays(*inputs)
    of_net = numbers, *shape[:2]
    return values, *others, *of_net, rights_of(*of_net, values.shape[1])


def _gradient_buffers(ctx, before: Tensor) -> tuple[Tensor, Tensor, GradientSums]:
    """Room for the gradients of values, of queries and of the net's numbers."""
    values, queries = ctx.saved_tensors[:2]
    to_values = empty_rows(*values.shape, values) if ctx.all_shown else values.new_zeros(values.shape)
    return (
        to_values,
        empty(queries, *queries.shape),
        GradientSums.of(ctx.parameters, len(before) * ctx.shape.work),
    )


def attention_pool(
    values: Tensor,
    queries: Tensor,
    layers: Layers,
    runs: Jagged,
    *,
    softmax_scale: float | None = None,
) -> Tensor:
    """``Σ_j a(e_j, v) e_j`` over each run's rows e, with its query v.

    Args:
        values: ``(M, D)`` rows.
        queries: ``(B, D)``.
        layers: the net a, as of `pair_net`; its last layer has one output.
        runs: B runs of the rows, or views of them.
        softmax_scale: the weights are the softmax over the run of this times a's scores; None for the scores themselves.

    Returns:
        ``(B, D)``; 0 for an empty run.
    """
    if can_use_compiled(values, queries, layers[0].weight):
        scale = 0.0 if softmax_scale is None else softmax_scale
        return _AttentionPool.apply(
            values, queries, *_segment_arguments(runs), scale, layers.shape, *layers.parameters
        )
    scores = pair_mlp(values, queries, layers, runs).squeeze(-1)
    return pool_by_scores(scores, values, runs, softmax_scale=softmax_scale)


def pool_by_scores(scores: Tensor, values: Tensor, runs: Jagged, *, softmax_scale: float | None) -> Tensor:
    """As `attention_pool`, of known scores ``(N,)``, one for each place of the runs."""
    weights = scores if softmax_scale is None else segment_softmax(scores * softmax_scale, runs)
    return weighted_sum(weights, expand(values, runs), runs)


class _AttentionPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, values, queries, offsets, starts, places: int, scale: float, shape: MLPShape, *parameters
    ) -> Tensor:
        inputs, (before, scores) = _prepare(ctx, values, queries, offsets, starts, places, shape, parameters)
        pooled = empty(values, len(queries), values.shape[1])
        given, rows = _kernel_arguments(pack_pair_forward, inputs, shape), as_arrays(before, scores, pooled)
        run_kernel(attention_pool_forward, *given, np.float32(scale), *rows, work=len(before) * shape.work)
        ctx.save_for_backward(*inputs, before, scores)
        ctx.scale = np.float32(scale)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        *inputs, before, weights = ctx.saved_tensors
        work, (to_values, to_queries, sums) = len(before) * ctx.shape.work, _gradient_buffers(ctx, before)
        given = _kernel_arguments(pack_pair_backward, inputs, ctx.shape)
        rows = as_arrays(before, weights, empty(weights, *weights.shape), to_values, to_queries, sums.parts)
        run_kernel(attention_pool_backward, *as_arrays(grad), *given, ctx.scale, *rows, work=work)
        return to_values, to_queries, None, None, None, None, None, *sums.gradients()
