"""A net over pairs of a row and its run's query: DIN's activation unit, in one pass while the rows are in the cache."""

from collections.abc import Sequence

import numpy as np
import torch
from numba import float32
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, parts_of, run, share
from deep_interest.ops.net import Layer, Shape, activate, flat, net, parameters_of, unflat
from deep_interest.ops.net_chunks import (
    CHUNK,
    add,
    backward_chunk,
    backward_panels,
    backward_room,
    copy,
    forward_chunk,
    forward_panels,
    forward_room,
    layer_at,
)  # fmt: skip
from deep_interest.ops.pair_chunks import (
    add_gradients_of_pairs,
    add_pairs,
    add_panels,
    panels_for_sums,
    room_for_gradients_of_pairs,
    room_for_pairs,
)
from deep_interest.ops.runs import Runs, Views
from deep_interest.ops.tiles import COLUMNS, add_product, panel_count, panels, panels_of
from deep_interest.ops.views import share_of_views, view


def pair_net(values: Tensor, queries: Tensor, layers: Sequence[Layer], runs: Runs) -> Tensor:
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
    if fits(values, queries, first.weight):
        return _PairNet.apply(values, queries, *places_of(runs), *net_of(values, layers))
    of_row, of_query, of_product = _factors(first.weight, values.shape[1])
    rows, query = view(values, runs), queries.index_select(0, runs.segments)
    constant = torch.addmm(first.bias, queries, of_query.t()).index_select(0, runs.segments)
    hidden = constant + rows @ of_row.t() + (rows * query) @ of_product.t()
    hidden = activate(hidden, first)
    return net(hidden, rest) if rest else hidden


def places_of(runs: Runs) -> tuple[Tensor, Tensor | None]:
    """Offsets, and starts if the runs are views."""
    return runs.offsets, runs.starts if isinstance(runs, Views) else None


def net_of(values: Tensor, layers: Sequence[Layer]) -> list[Shape | Tensor]:
    """The net behind the pairs ``[e; e∘v]``, and its parameters."""
    return [Shape.of(2 * values.shape[1], layers), *parameters_of(layers)]


def _factors(weight: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """What e, v and e∘v are multiplied by. Shape: ``(O, 3 D or 4 D) -> 3 x (O, D)``."""
    of_row, of_query, of_product, *of_difference = weight.split(dim, dim=1)
    for difference in of_difference:
        of_row, of_query = of_row + difference, of_query - difference
    return of_row, of_query, of_product


class _PairNet(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, queries, offsets, starts, shape: Shape, *parameters) -> Tensor:
        inputs, rows = prepare(ctx, values, queries, offsets, starts, shape, parameters)
        run(pairs_forward, *arrays(*inputs), *shape[:2], *arrays(*rows), work=len(rows[0]) * shape.work)
        ctx.save_for_backward(*inputs, rows[0])
        return rows[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        *inputs, before = ctx.saved_tensors
        work, results = len(before) * ctx.shape.work, room_for_gradients(ctx, before)
        run(_backward, *arrays(grad, *inputs), *ctx.shape[:2], *arrays(before, *results), work=work)
        return *results[:2], None, None, None, *gradients(ctx, *results[2:])


def prepare(
    ctx, values, queries, offsets, starts, shape: Shape, parameters
) -> tuple[list[Tensor], list[Tensor]]:
    """What `pairs_forward` takes: its inputs, and room for the values before the activations and for the result."""
    weight, *others = parameters
    ctx.all_shown = starts is None
    starts = offsets[:-1] if starts is None else starts
    of_row, of_query, of_product = _factors(weight, values.shape[1])
    numbers, places = flat([torch.cat([of_row, of_product], dim=1), *others]), int(offsets[-1])
    ctx.shape, ctx.shapes = (
        shape,
        [
            torch.Size((len(weight), shape.widths[0])),
            *(other.shape for other in others),
        ],
    )
    ctx.difference = weight.shape[1] == 4 * values.shape[1]
    rows = [values.new_empty(places, width) for width in (shape.inner, shape.widths[-1])]
    return [values, queries, of_query, offsets, starts, numbers], rows


def room_for_gradients(ctx, before: Tensor) -> list[Tensor]:
    """Room for the gradients of values, queries, W2 and the net's numbers, the last two for every part."""
    values, queries, of_query, _, _, numbers = ctx.saved_tensors[:6]
    parts = parts_of(len(before) * ctx.shape.work)
    return [
        values.new_empty(values.shape) if ctx.all_shown else values.new_zeros(values.shape),
        queries.new_empty(queries.shape), values.new_zeros(parts, *of_query.shape), values.new_zeros(parts, len(numbers)),
    ]  # fmt: skip


def gradients(ctx, to_query: Tensor, to_numbers: Tensor) -> list[Tensor]:
    """The gradient of every parameter of the layers."""
    to_pair, *to_others = unflat(to_numbers, ctx.shapes)
    to_row, to_product = to_pair.split(to_query.shape[2], dim=1)
    to_query = to_query.sum(0)
    to_weight = [to_row, to_query, to_product, *([to_row - to_query] if ctx.difference else [])]
    return [torch.cat(to_weight, dim=1), *to_others]


@compiled
def pairs_forward(
    values, queries, of_query, offsets, starts, numbers, widths, kinds, before, out, part, parts
):
    right, room = forward_panels(numbers, widths, kinds), forward_room(widths)
    weight, bias, _ = layer_at(numbers, widths, kinds, 0)
    half, outputs = values.shape[1], widths[1]
    pair_panels, pair_room = (
        (panels_of(weight[:, :half].T), panels_of(weight[:, half:].T)),
        room_for_pairs(outputs, half),
    )
    first, last = share(len(starts), part, parts)
    constants = np.empty((last - first, outputs), float32)
    for b in range(last - first):
        copy(bias, constants[b])
    add_product(queries[first:last], panels_of(of_query.T), constants)
    b = first
    for begin in range(offsets[first], offsets[last], CHUNK):
        end = min(begin + CHUNK, offsets[last])
        o = b
        for p in range(begin, end):
            while offsets[o + 1] <= p:
                o += 1
            copy(constants[o - first], before[p])
        b = add_pairs(
            values,
            queries,
            offsets,
            starts,
            begin,
            end,
            b,
            pair_panels,
            before[begin:end, :outputs],
            pair_room,
        )
        forward_chunk(numbers, widths, kinds, right, before[begin:end], out[begin:end], room)


@compiled
def _backward(
    grad, values, queries, of_query, offsets, starts, numbers, widths, kinds, before,
    to_values, to_queries, to_query, to_numbers, part, parts,
):  # fmt: skip
    first, last = share_of_views(starts, part, parts)
    clear_rows(to_values, offsets, starts, first, last)
    pairs_backward(
        grad, values, queries, of_query, offsets, starts, numbers, widths, kinds, before,
        to_values, to_queries, to_query, to_numbers, part, parts,
    )  # fmt: skip


@compiled
def pairs_backward(
    grad, values, queries, of_query, offsets, starts, numbers, widths, kinds, before,
    to_values, to_queries, to_query, to_numbers, part, parts,
):  # fmt: skip
    """The gradient of the values is added to what is there; the queries' is set."""
    right, room, totals = backward_panels(numbers, widths, kinds), backward_room(widths), to_numbers[part]
    weight, half, outputs = layer_at(numbers, widths, kinds, 0)[0], values.shape[1], widths[1]
    pair_panels = panels_of(weight[:, :half]), panels_of(weight[:, half:])
    pair_room, sums = room_for_gradients_of_pairs(outputs, half), panels_for_sums(outputs, half)
    first, last = share_of_views(starts, part, parts)
    to_constants = np.zeros((last - first, outputs), float32)
    to_queries[first:last] = 0
    b = first
    for begin in range(offsets[first], offsets[last], CHUNK):
        end = min(begin + CHUNK, offsets[last])
        flows = backward_chunk(
            grad[begin:end], numbers, widths, kinds, right, before[begin:end], totals, room
        )
        flow, o = flows[: end - begin, :outputs], b
        for p in range(begin, end):
            while offsets[o + 1] <= p:
                o += 1
            add(flow[p - begin], to_constants[o - first])
        b = add_gradients_of_pairs(
            flow,
            values,
            queries,
            offsets,
            starts,
            begin,
            end,
            b,
            pair_panels,
            to_values,
            to_queries,
            sums,
            pair_room,
        )
    to_weight, to_bias, _ = layer_at(totals, widths, kinds, 0)
    add_panels(sums[0], to_weight[:, :half])
    add_panels(sums[1], to_weight[:, half:])
    for b in range(last - first):
        add(to_constants[b], to_bias)
    add_product(to_constants, panels_of(of_query), to_queries[first:last])
    columns = np.empty((panel_count(half), CHUNK, COLUMNS), float32)
    for begin in range(0, last - first, CHUNK):
        end = min(begin + CHUNK, last - first)
        panels(queries[first + begin : first + end], half, columns)
        add_product(to_constants[begin:end].T, columns, to_query[part])


@compiled
def clear_rows(rows, offsets, starts, first, last):
    """Set the rows that some runs show to 0."""
    done = 0
    for b in range(first, last):
        end = starts[b] + offsets[b + 1] - offsets[b]
        rows[max(done, starts[b]) : end] = 0
        done = max(done, end)
