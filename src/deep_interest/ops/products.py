"""Products of rows with something beside them: weighted sums, and inner products with their run's query or with the next rows.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.runs import Runs
from deep_interest.ops.scratch import empty
from deep_interest.ops.segments import plain_segment_sum


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


def next_dots(values: Tensor, others: Sequence[Tensor], runs: Runs) -> tuple[Tensor, ...]:
    """The inner product of each row with the row one further on in each of ``others``; 0 for a run's last row.

    Shape: ``values``, each of ``others`` ``(N, D)`` -> ``(N,)`` each.
    """
    if fits(values, *others):
        return _NextDots.apply(values, runs.offsets, *others)
    last = (runs.distances == 0).unsqueeze(1)
    return tuple((values * other.roll(-1, 0).masked_fill(last, 0)).sum(1) for other in others)


def ring_dots(values: Tensor, others: Tensor, count: int) -> Tensor:
    """The inner products of each row with the ``count`` rows after it in others, where the first comes after the last.

    Shape: ``values``, ``others`` ``(N, D)`` -> ``(N, count)``.
    """
    if fits(values, others):
        return _RingDots.apply(values, others, count)
    return torch.stack([(values * others.roll(-1 - k, 0)).sum(1) for k in range(count)], dim=1)


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(weights, values, offsets)
        sums = empty(values, len(offsets) - 1, values.shape[1])
        run(_weighted, *arrays(weights, values, offsets, sums), work=values.numel())
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        weights, values, offsets = ctx.saved_tensors
        to_weights, to_values = empty(weights, *weights.shape), empty(values, *values.shape)
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
        products = empty(values, len(values))
        run(_dot, *arrays(values, queries, offsets, products), work=values.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, queries, offsets = ctx.saved_tensors
        to_values, to_queries = empty(values, *values.shape), empty(queries, *queries.shape)
        run(
            _scale_and_weigh,
            *arrays(grad, values, queries, offsets, to_values, to_queries),
            work=values.numel(),
        )
        return to_values, to_queries, None


class _NextDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, offsets: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(values, offsets, *others)
        products = tuple(empty(values, len(values)) for _ in others)
        for other, product in zip(others, products, strict=True):
            run(_next_dot, *arrays(values, other, offsets, product), work=values.numel())
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor):
        values, offsets, *others = ctx.saved_tensors
        to_values = empty(values, *values.shape)
        to_others = [empty(other, *other.shape) for other in others]
        for number, (grad, other, to_other) in enumerate(zip(gradients, others, to_others, strict=True)):
            given = arrays(grad, values, other, offsets)
            run(_scale_next, *given, number > 0, *arrays(to_values, to_other), work=values.numel())
        return to_values, None, *to_others


class _RingDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, others: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(values, others)
        products = empty(values, len(values), count)
        run(_ring_dots, *arrays(values, others, products), work=values.numel() * count)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        values, others = ctx.saved_tensors
        to_values, to_others = empty(values, *values.shape), empty(others, *others.shape)
        for rows, step, out in ((others, 1, to_values), (values, -1, to_others)):
            run(_ring_sums, *arrays(grad, rows), step, *arrays(out), work=rows.numel() * grad.shape[1])
        return to_values, to_others, None


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
def _dot_and_scale(weights, values, queries, offsets, products, scaled, part, parts):
    """``products`` as `_dot`, and each row's query times its weight."""
    first, last = share(len(queries), part, parts)
    for b in range(first, last):
        query = queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight, product = values[p], scaled[p], weights[p], values.dtype.type(0)
            for j in range(len(query)):
                product += row[j] * query[j]
            for j in range(len(query)):
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
def _next_dot(values, others, offsets, products, part, parts):
    first, last = share(len(offsets) - 1, part, parts)
    for b in range(first, last):
        for p in range(offsets[b], offsets[b + 1]):
            product = values.dtype.type(0)
            if p + 1 < offsets[b + 1]:
                row, other = values[p], others[p + 1]
                for j in range(len(row)):
                    product += row[j] * other[j]
            products[p] = product


@compiled
def _scale_next(weights, values, others, offsets, more, to_values, to_others, part, parts):
    """The rows one further on, each times its row's weight, and these rows times it; ``more`` adds to ``to_values``."""
    first, last = share(len(offsets) - 1, part, parts)
    for b in range(first, last):
        begin, end = offsets[b], offsets[b + 1]
        if begin == end:
            continue
        to_others[begin] = 0
        if not more:
            to_values[end - 1] = 0
        for p in range(begin, end - 1):
            weight, row, other = weights[p], values[p], others[p + 1]
            to_row, to_other = to_values[p], to_others[p + 1]
            if more:
                for j in range(len(row)):
                    to_row[j] += weight * other[j]
            else:
                for j in range(len(row)):
                    to_row[j] = weight * other[j]
            for j in range(len(row)):
                to_other[j] = weight * row[j]


@compiled
def _ring_dots(values, others, products, part, parts):
    first, last = share(len(values), part, parts)
    for p in range(first, last):
        row = values[p]
        for k in range(products.shape[1]):
            other, product = others[(p + 1 + k) % len(others)], values.dtype.type(0)
            for j in range(len(row)):
                product += row[j] * other[j]
            products[p, k] = product


@compiled
def _ring_sums(weights, rows, step, sums, part, parts):
    """Each row's sum of the others that it was multiplied with, by its own weights (``step`` 1) or by theirs (-1)."""
    first, last = share(len(sums), part, parts)
    for p in range(first, last):
        total = sums[p]
        total[:] = 0
        for k in range(weights.shape[1]):
            q = (p + step * (1 + k)) % len(rows)
            weight, row = weights[p if step > 0 else q, k], rows[q]
            for j in range(len(total)):
                total[j] += weight * row[j]
