"""Sums and softmax over the runs of a jagged batch.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.runs import Runs
from deep_interest.ops.scratch import empty


def segment_sum(values: Tensor, runs: Runs) -> Tensor:
    """The sum of each run's rows; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    return _Sum.apply(values, runs.offsets) if fits(values) else plain_segment_sum(values, runs)


def segment_softmax(scores: Tensor, runs: Runs) -> Tensor:
    """Softmax over each run. Shape: ``(N,) -> (N,)``."""
    return _Softmax.apply(scores, runs.offsets) if fits(scores) else plain_segment_softmax(scores, runs)


def segment_repeat(rows: Tensor, runs: Runs) -> Tensor:
    """Each run's row, once for every row of the run. Shape: ``(B, D) -> (N, D)``."""
    return _Repeat.apply(rows, runs.offsets) if fits(rows) else rows.index_select(0, runs.segments)


def plain_segment_sum(values: Tensor, runs: Runs) -> Tensor:
    sums = values.new_zeros(runs.size, *values.shape[1:])
    return sums.index_add(0, runs.segments, values)


def plain_segment_softmax(scores: Tensor, runs: Runs) -> Tensor:
    size, segments = runs.size, runs.segments
    top = scores.detach().new_full((size,), -torch.inf).scatter_reduce(0, segments, scores.detach(), "amax")
    weights = torch.exp(scores - top[segments])
    return weights / plain_segment_sum(weights, runs)[segments]


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _sum_rows(values, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (offsets,) = ctx.saved_tensors
        return _spread_rows(grad, offsets), None


class _Repeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _spread_rows(rows, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (offsets,) = ctx.saved_tensors
        return _sum_rows(grad, offsets), None


def _sum_rows(values: Tensor, offsets: Tensor) -> Tensor:
    sums = empty(values, len(offsets) - 1, values.shape[1])
    run(_sum, *arrays(values, offsets, sums), work=values.numel())
    return sums


def _spread_rows(rows: Tensor, offsets: Tensor) -> Tensor:
    places = empty(rows, int(offsets[-1]), rows.shape[1])
    run(_repeat, *arrays(rows, offsets, places), work=places.numel())
    return places


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, offsets: Tensor) -> Tensor:
        weights = empty(scores, *scores.shape)
        run(_softmax, *arrays(scores, offsets, weights), work=len(scores))
        ctx.save_for_backward(weights, offsets)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        weights, offsets = ctx.saved_tensors
        to_scores = empty(weights, *weights.shape)
        run(_softmax_backward, *arrays(weights, grad, offsets, to_scores), work=len(weights))
        return to_scores, None


@compiled
def _sum(values, offsets, sums, part, parts):
    first, last = share(len(sums), part, parts)
    for b in range(first, last):
        total = sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row = values[p]
            for j in range(len(total)):
                total[j] += row[j]


@compiled
def _repeat(rows, offsets, places, part, parts):
    first, last = share(len(rows), part, parts)
    for b in range(first, last):
        for p in range(offsets[b], offsets[b + 1]):
            places[p] = rows[b]


@compiled
def _softmax(scores, offsets, weights, part, parts):
    first, last = share(len(offsets) - 1, part, parts)
    for b in range(first, last):
        begin, end = offsets[b], offsets[b + 1]
        if begin == end:
            continue
        top = scores[begin:end].max()
        total = scores.dtype.type(0)
        for p in range(begin, end):
            weights[p] = np.exp(scores[p] - top)
        for p in range(begin, end):
            total += weights[p]
        for p in range(begin, end):
            weights[p] /= total


@compiled
def _softmax_backward(weights, grad, offsets, to_scores, part, parts):
    first, last = share(len(offsets) - 1, part, parts)
    for b in range(first, last):
        mean = grad.dtype.type(0)
        for p in range(offsets[b], offsets[b + 1]):
            mean += weights[p] * grad[p]
        for p in range(offsets[b], offsets[b + 1]):
            to_scores[p] = weights[p] * (grad[p] - mean)
