"""The sum of each run's rows by weights that a net over the pairs of row and query gives them: DIN's user vector."""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run
from deep_interest.ops.net import Layers, Shape
from deep_interest.ops.pair_net import (
    backward_rights,
    forward_rights,
    given_to_loops,
    pair_net,
    pairs_backward,
    pairs_forward,
    places_of,
    prepare,
    room_for_gradients,
)  # fmt: skip
from deep_interest.ops.pool_chunks import pool_runs
from deep_interest.ops.products import weighted_sum
from deep_interest.ops.runs import Runs
from deep_interest.ops.scratch import empty
from deep_interest.ops.segments import segment_softmax
from deep_interest.ops.views import share_of_runs, view


def attention_pool(
    values: Tensor,
    queries: Tensor,
    layers: Layers,
    runs: Runs,
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
    if fits(values, queries, layers[0].weight):
        scale = 0.0 if softmax_scale is None else softmax_scale
        return _Pool.apply(values, queries, *places_of(runs), scale, layers.shape, *layers.parameters)
    scores = pair_net(values, queries, layers, runs).squeeze(-1)
    return pool_by(scores, values, runs, softmax_scale=softmax_scale)


def pool_by(scores: Tensor, values: Tensor, runs: Runs, *, softmax_scale: float | None) -> Tensor:
    """As `attention_pool`, of known scores ``(N,)``, one for each place of the runs."""
    weights = scores if softmax_scale is None else segment_softmax(scores * softmax_scale, runs)
    return weighted_sum(weights, view(values, runs), runs)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, values, queries, offsets, starts, places: int, scale: float, shape: Shape, *parameters
    ) -> Tensor:
        inputs, (before, scores) = prepare(ctx, values, queries, offsets, starts, places, shape, parameters)
        pooled = empty(values, len(queries), values.shape[1])
        given, rows = given_to_loops(forward_rights, inputs, shape), arrays(before, scores, pooled)
        run(_forward, *given, np.float32(scale), *rows, work=len(before) * shape.work)
        ctx.save_for_backward(*inputs, before, scores)
        ctx.scale = np.float32(scale)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        *inputs, before, weights = ctx.saved_tensors
        work, (to_values, to_queries, sums) = len(before) * ctx.shape.work, room_for_gradients(ctx, before)
        given = given_to_loops(backward_rights, inputs, ctx.shape)
        rows = arrays(before, weights, empty(weights, *weights.shape), to_values, to_queries, sums.parts)
        run(_backward, *arrays(grad), *given, ctx.scale, *rows, work=work)
        return to_values, to_queries, None, None, None, None, None, *sums.gradients()


@compiled
def _forward(
    values,
    queries,
    offsets,
    starts,
    numbers,
    widths,
    kinds,
    rights,
    scale,
    before,
    weights,
    pooled,
    part,
    parts,
):
    """``weights (N, 1)`` come out as what the rows are multiplied by; a scale of 0 stands for no softmax."""
    pairs_forward(
        values, queries, offsets, starts, numbers, widths, kinds, rights, before, weights, part, parts
    )
    first, last = share_of_runs(offsets, part, parts)
    pool_runs(values, offsets, starts, first, last, scale, weights, pooled)


@compiled
def _backward(
    grad, values, queries, offsets, starts, numbers, widths, kinds, rights, scale, before, weights, to_scores,
    to_values, to_queries, to_numbers, part, parts,
):  # fmt: skip
    pairs_backward(
        to_scores, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
        to_values, to_queries, to_numbers, part, parts, (grad, scale, weights),
    )  # fmt: skip
