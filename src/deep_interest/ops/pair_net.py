"""A net over pairs of a row and its run's query: DIN's activation unit, in one pass while the rows are in the cache."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numba import float32
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, exact, fits, room_for, run, uncounted
from deep_interest.ops.net import Layers, Shape, Sums, activate, flat, net
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
    sums_of,
)  # fmt: skip
from deep_interest.ops.pair_chunks import (
    add_gradients_of_pairs,
    add_to_factors,
    factors,
    pairs_of,
    panels_for_sums,
    room_for_gradients_of_pairs,
    room_for_pairs,
)
from deep_interest.ops.pool_chunks import gradients_of_pool
from deep_interest.ops.runs import Runs, Views
from deep_interest.ops.scratch import empty
from deep_interest.ops.tiles import add_product, panel_room, panels, panels_of
from deep_interest.ops.views import share_of_runs, share_of_views, view


def pair_net(values: Tensor, queries: Tensor, layers: Layers, runs: Runs) -> Tensor:
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
        return _PairNet.apply(values, queries, *places_of(runs), layers.shape, *layers.parameters)
    of_row, of_query, of_product, *of_difference = first.weight.split(values.shape[1], dim=1)
    for difference in of_difference:
        of_row, of_query = of_row + difference, of_query - difference
    rows, query = view(values, runs), queries.index_select(0, runs.segments)
    constant = torch.addmm(first.bias, queries, of_query.t()).index_select(0, runs.segments)
    hidden = constant + rows @ of_row.t() + (rows * query) @ of_product.t()
    hidden = activate(hidden, first)
    return net(hidden, Layers(rest)) if rest else hidden


def places_of(runs: Runs) -> tuple[Tensor, Tensor | None, int]:
    """Offsets, starts if the runs are views, and how many places there are."""
    return runs.offsets, runs.starts if isinstance(runs, Views) else None, runs.total


class _PairNet(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, queries, offsets, starts, places: int, shape: Shape, *parameters) -> Tensor:
        inputs, rows = prepare(ctx, values, queries, offsets, starts, places, shape, parameters)
        given = given_to_loops(forward_rights, inputs, shape)
        run(pairs_forward, *given, *arrays(*rows), work=len(rows[0]) * shape.work)
        ctx.save_for_backward(*inputs, rows[0])
        return rows[1]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        *inputs, before = ctx.saved_tensors
        work, (to_values, to_queries, sums) = len(before) * ctx.shape.work, room_for_gradients(ctx, before)
        given = given_to_loops(backward_rights, inputs, ctx.shape)
        rows = arrays(before, to_values, to_queries, sums.parts)
        run(_backward, *arrays(grad), *given, *rows, work=work)
        return to_values, to_queries, None, None, None, None, *sums.gradients()


def prepare(
    ctx, values, queries, offsets, starts, places: int, shape: Shape, parameters
) -> tuple[list[Tensor], list[Tensor]]:
    """What `pairs_forward` takes: its inputs, and room for the values before the activations and for the result."""
    ctx.all_shown, ctx.shape, ctx.parameters = starts is None, shape, parameters
    starts = offsets[:-1] if starts is None else starts
    rows = [room_for(places, width, values) for width in (shape.inner, shape.widths[-1])]
    return [values, queries, offsets, starts, flat(parameters)], rows


def given_to_loops(rights_of: Callable, inputs: Sequence[Tensor], shape: Shape) -> tuple:
    """The first arguments of `pairs_forward`, with `forward_rights`, or of `pairs_backward`, with `backward_rights`."""
    values, *others, numbers = arrays(*inputs)
    of_net = numbers, *shape[:2]
    return values, *others, *of_net, rights_of(*of_net, values.shape[1])


def room_for_gradients(ctx, before: Tensor) -> tuple[Tensor, Tensor, Sums]:
    """Room for the gradients of values, of queries and of the net's numbers."""
    values, queries = ctx.saved_tensors[:2]
    to_values = room_for(*values.shape, values) if ctx.all_shown else values.new_zeros(values.shape)
    return to_values, empty(queries, *queries.shape), Sums.of(ctx.parameters, len(before) * ctx.shape.work)


@compiled
def forward_rights(numbers, widths, kinds, inputs):
    """What the parts of a forward pass multiply with, as panels: by W1 and W3 of `factors`, by W2, and in the other layers."""
    of_row, of_query, of_product = factors(layer_at(numbers, widths, kinds, 0)[0], inputs)
    pairs = panels_of(of_row.T), panels_of(of_product.T)
    return pairs, panels_of(of_query.T), forward_panels(numbers, widths, kinds)


@compiled
def backward_rights(numbers, widths, kinds, inputs):
    """As `forward_rights`, of a backward pass."""
    of_row, of_query, of_product = factors(layer_at(numbers, widths, kinds, 0)[0], inputs)
    pairs = panels_of(of_row), panels_of(of_product)
    return pairs, panels_of(of_query), backward_panels(numbers, widths, kinds)


@exact
def pairs_forward(values, queries, offsets, starts, numbers, widths, kinds, rights, before, out, part, parts):
    """Fill ``before`` and ``out``; ``rights`` are `forward_rights`."""
    of_pairs, of_query, right = rights
    inputs, outputs, bias = values.shape[1], widths[1], layer_at(numbers, widths, kinds, 0)[1]
    room, pair_room = forward_room(widths), room_for_pairs(outputs, inputs)
    first, last = share_of_runs(offsets, part, parts)
    constants = np.empty((last - first, outputs), float32)
    for b in range(last - first):
        copy(bias, constants[b])
    add_product(queries[first:last], of_query, constants)
    b = first
    for begin in range(offsets[first], offsets[last], CHUNK):
        end = min(begin + CHUNK, offsets[last])
        b = pairs_of(
            values, queries, constants, first, offsets, starts, begin, end, b, of_pairs,
            before[begin:end], pair_room,
        )  # fmt: skip
        forward_chunk(numbers, widths, kinds, right, before[begin:end], out[begin:end], room)


@compiled
def _backward(
    grad, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
    to_values, to_queries, to_numbers, part, parts,
):  # fmt: skip
    first, last = share_of_views(offsets, starts, part, parts)
    clear_rows(to_values, offsets, starts, first, last)
    pairs_backward(
        grad, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
        to_values, to_queries, to_numbers, part, parts, None,
    )  # fmt: skip


@exact
def pairs_backward(
    grad, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
    to_values, to_queries, to_numbers, part, parts, pool,
):  # fmt: skip
    """The gradient of the values is added to what is there; the queries' is set.

    Args:
        rights: `backward_rights`.
        pool: None; or how the rows are pooled by the net's scores, as `gradients_of_pool` takes it: the gradient, scale and weights.
            Then ``grad`` is room for the scores' gradient, and the values' is set.
    """
    of_pairs, of_query, right = rights
    totals, room = sums_of(to_numbers, part), backward_room(widths)
    inputs, outputs = values.shape[1], widths[1]
    pair_room, sums = room_for_gradients_of_pairs(outputs, inputs), panels_for_sums(outputs, inputs)
    first, last = share_of_views(offsets, starts, part, parts)
    to_constants = np.zeros((last - first, outputs), float32)
    to_queries[first:last] = 0
    b = of_pool = first
    shown = 0
    for begin in range(offsets[first], offsets[last], CHUNK):
        end = min(begin + CHUNK, offsets[last])
        if pool is not None:
            of_pool, shown = gradients_of_pool(
                pool[0], values, offsets, starts, of_pool, last, end, shown, pool[1], pool[2], grad, to_values
            )
        flows = backward_chunk(
            grad[begin:end], numbers, widths, kinds, right, before[begin:end], totals, room
        )
        b = add_gradients_of_pairs(
            flows, values, queries, to_constants, first, offsets, starts, begin, end, b,
            of_pairs, to_values, to_queries, sums, pair_room,
        )  # fmt: skip
    to_weight, to_bias, _ = layer_at(totals, widths, kinds, 0)
    for b in range(last - first):
        add(to_constants[b], to_bias)
    add_product(to_constants, of_query, to_queries[first:last])
    to_query = np.zeros((outputs, inputs), float32)
    columns = panel_room(CHUNK, inputs)
    for begin in range(0, last - first, CHUNK):
        end = min(begin + CHUNK, last - first)
        panels(queries[first + begin : first + end], inputs, columns)
        add_product(to_constants[begin:end].T, columns, to_query)
    add_to_factors(sums, to_query, to_weight)


@uncounted
def clear_rows(rows, offsets, starts, first, last):
    """Set the rows that some runs show to 0."""
    done = 0
    for b in range(first, last):
        end = starts[b] + offsets[b + 1] - offsets[b]
        rows[max(done, starts[b]) : end] = 0
        done = max(done, end)
