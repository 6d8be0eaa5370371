"""Sums, products and softmax over the runs of a jagged batch.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.runs import Runs, Views


def segment_sum(values: Tensor, runs: Runs) -> Tensor:
    """The sum of each run's rows; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    return _Sum.apply(values, runs.offsets) if fits(values) else plain_segment_sum(values, runs)


def spread(rows: Tensor, runs: Runs) -> Tensor:
    """Each run's row at every place of the run. Shape: ``(B, D) -> (N, D)``."""
    return _Spread.apply(rows, runs.offsets) if fits(rows) else rows.index_select(0, runs.segments)


def weighted_sum(weights: Tensor, values: Tensor, runs: Runs) -> Tensor:
    """The weighted sum of each run's rows. Shape: ``weights (N,)``, ``values (N, D)`` -> ``(B, D)``."""
    if fits(weights, values):
        return _WeightedSum.apply(weights, values, runs.offsets)
    return plain_segment_sum(weights.unsqueeze(1) * values, runs)


def segment_dot(values: Tensor, queries: Tensor, runs: Runs) -> Tensor:
    """The inner product of each row with its run's query. Shape: ``values (N, D)``, ``queries (B, D)`` -> ``(N,)``."""
    if fits(values, queries):
        return _Dot.apply(values, queries, runs.offsets)
    return (values * queries.index_select(0, runs.segments)).sum(1)


def row_dot(left: Tensor, right: Tensor) -> Tensor:
    """The inner product of each row with the other's. Shape: ``(N, D), (N, D) -> (N,)``."""
    return _RowDot.apply(left, right) if fits(left, right) else (left * right).sum(1)


def segment_softmax(scores: Tensor, runs: Runs) -> Tensor:
    """Softmax over each run. Shape: ``(N,) -> (N,)``."""
    return _Softmax.apply(scores, runs.offsets) if fits(scores) else plain_segment_softmax(scores, runs)


def view(values: Tensor, runs: Runs) -> Tensor:
    """The rows that the runs show; for runs that are their own, the rows themselves. Shape: ``(M, D) -> (N, D)``."""
    if not isinstance(runs, Views):
        return values
    if fits(values):
        return _View.apply(values, runs.offsets, runs.starts)
    return values.index_select(0, runs.places)


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
        sums = values.new_empty(len(offsets) - 1, values.shape[1])
        run(_sum, *arrays(values, offsets, sums), work=values.numel())
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (offsets,) = ctx.saved_tensors
        return _spread_rows(grad, offsets), None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(offsets)
        return _spread_rows(rows, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (offsets,) = ctx.saved_tensors
        sums = grad.new_empty(len(offsets) - 1, grad.shape[1])
        run(_sum, *arrays(grad, offsets, sums), work=grad.numel())
        return sums, None


def _spread_rows(rows: Tensor, offsets: Tensor) -> Tensor:
    places = rows.new_empty(int(offsets[-1]), rows.shape[1])
    run(_repeat, *arrays(rows, offsets, places), work=places.numel())
    return places


class _View(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(offsets, starts)
        ctx.rows = len(values)
        shown = values.new_empty(int(offsets[-1]), values.shape[1])
        run(_show, *arrays(values, offsets, starts, shown), work=shown.numel())
        return shown

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        offsets, starts = ctx.saved_tensors
        to_values = grad.new_zeros(ctx.rows, grad.shape[1])
        run(_gather_back, *arrays(grad, offsets, starts, to_values), work=grad.numel())
        return to_values, None, None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(weights, values, offsets)
        sums = values.new_empty(len(offsets) - 1, values.shape[1])
        run(_weighted, *arrays(weights, values, offsets, sums), work=values.numel())
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        weights, values, offsets = ctx.saved_tensors
        to_weights, to_values = weights.new_empty(weights.shape), values.new_empty(values.shape)
        run(
            _dot_and_scale,
            *arrays(weights, values, grad, offsets, to_weights, to_values),
            work=values.numel(),
        )
        return to_weights, to_values, None


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, queries: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(values, queries, offsets)
        products = values.new_empty(len(values))
        run(_dot, *arrays(values, queries, offsets, products), work=values.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, queries, offsets = ctx.saved_tensors
        to_values, to_queries = values.new_empty(values.shape), queries.new_empty(queries.shape)
        run(
            _scale_and_weigh,
            *arrays(grad, values, queries, offsets, to_values, to_queries),
            work=values.numel(),
        )
        return to_values, to_queries, None


class _RowDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        products = left.new_empty(len(left))
        run(_dot_rows, *arrays(left, right, products), work=left.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        left, right = ctx.saved_tensors
        to_left, to_right = left.new_empty(left.shape), right.new_empty(right.shape)
        run(_scale_rows, *arrays(grad, left, right, to_left, to_right), work=left.numel())
        return to_left, to_right


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, offsets: Tensor) -> Tensor:
        weights = scores.new_empty(scores.shape)
        run(_softmax, *arrays(scores, offsets, weights), work=len(scores))
        ctx.save_for_backward(weights, offsets)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        weights, offsets = ctx.saved_tensors
        to_scores = weights.new_empty(weights.shape)
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
def _show(values, offsets, starts, shown, part, parts):
    first, last = share(len(starts), part, parts)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = values[p + shift], shown[p]
            for j in range(len(out)):
                out[j] = row[j]


@compiled
def _gather_back(grad, offsets, starts, to_values, part, parts):
    """Each part takes whole neighbourhoods of equal starts, so that no two threads add to one row."""
    first, last = (
        _whole(starts, len(starts) * part // parts),
        _whole(starts, len(starts) * (part + 1) // parts),
    )
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = grad[p], to_values[p + shift]
            for j in range(len(out)):
                out[j] += row[j]


@compiled
def _whole(starts, b):
    while 0 < b < len(starts) and starts[b] == starts[b - 1]:
        b += 1
    return b


@compiled
def _weighted(weights, values, offsets, sums, part, parts):
    first, last = share(len(sums), part, parts)
    for b in range(first, last):
        total = sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, weight = values[p], weights[p]
            for j in range(len(total)):
                total[j] += weight * row[j]


@compiled
def _dot(values, queries, offsets, products, part, parts):
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query = queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, product = values[p], values.dtype.type(0)
            for j in range(len(query)):
                product += row[j] * query[j]
            products[p] = product


@compiled
def _dot_and_scale(weights, values, queries, offsets, products, scaled, part, parts):
    """``products`` as `_dot`, and each row's query times its weight."""
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query = queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight, product = values[p], scaled[p], weights[p], values.dtype.type(0)
            for j in range(len(query)):
                product += row[j] * query[j]
                out[j] = weight * query[j]
            products[p] = product


@compiled
def _scale_and_weigh(weights, values, queries, offsets, scaled, sums, part, parts):
    """Each row's query times its weight, and ``sums`` as `_weighted`."""
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query, total = queries[b], sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight = values[p], scaled[p], weights[p]
            for j in range(len(query)):
                out[j] = weight * query[j]
                total[j] += weight * row[j]


@compiled
def _dot_rows(left, right, products, part, parts):
    first, last = share(len(left), part, parts)
    for p in range(first, last):
        one, other, product = left[p], right[p], left.dtype.type(0)
        for j in range(len(one)):
            product += one[j] * other[j]
        products[p] = product


@compiled
def _scale_rows(grad, left, right, to_left, to_right, part, parts):
    first, last = share(len(left), part, parts)
    for p in range(first, last):
        one, other, to_one, to_other, g = left[p], right[p], to_left[p], to_right[p], grad[p]
        for j in range(len(one)):
            to_one[j] = g * other[j]
        for j in range(len(one)):
            to_other[j] = g * one[j]


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
