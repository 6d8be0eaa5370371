"""The first layer of a net over pairs of a row e and its run's query v, for a chunk of places: the loops of `pair_net`.

``W1 e + W3 (e∘v) = (W1 + W3 diag v) e``, with the factors' names of `factors`: a run with several rows in the chunk has a matrix of its own, which halves the
products forward and backward; it is made in registers while it is multiplied with. The rows of shorter runs are paired with their
queries, and multiplied together.
"""

import numpy as np
from numba import njit

from deep_interest.ops.kernels.gemm import (
    COLUMNS_SCALED,
    ROWS_SCALED,
    add_segment_products,
    matmul_add,
    row_buffer,
    scaled_matmuls,
    zero_packed,
)
from deep_interest.ops.kernels.gemm_llvm import NR, SEGMENT_MR
from deep_interest.ops.kernels.mlp_chunk import CHUNK_ROWS
from deep_interest.ops.kernels.vector import add, copy, subtract
from deep_interest.ops.runtime.jit import njit_no_refcount, njit_strict

MIN_LONG_SEGMENT = 5  # rows of a run in a chunk, from which on the run has a matrix of its own


@njit_strict
def factorize(weight, inputs):
    """What e, v and e∘v are multiplied by. Shape: ``(O, 3 D or 4 D) -> 3 x (O, D)``, see `pair_net.pair_net`."""
    of_row, of_query = weight[:, :inputs].copy(), weight[:, inputs : 2 * inputs].copy()
    if weight.shape[1] > 3 * inputs:
        for o in range(len(weight)):
            for j in range(inputs):
                difference = weight[o, 3 * inputs + j]
                of_row[o, j] += difference
                of_query[o, j] -= difference
    return of_row, of_query, weight[:, 2 * inputs : 3 * inputs].copy()


@njit_strict
def pair_workspace(outputs, inputs):
    """What the pairs of a chunk need: e, e∘v and the first layer's values, each place's number in the chunk, products."""
    rows = row_buffer(CHUNK_ROWS, inputs), row_buffer(CHUNK_ROWS, inputs), row_buffer(CHUNK_ROWS, outputs)
    return rows, np.empty(CHUNK_ROWS, np.int64), np.empty((CHUNK_ROWS // MIN_LONG_SEGMENT, 5), np.int64)


@njit_no_refcount
def pair_layer_forward(values, queries, constants, first, offsets, starts, begin, end, b, right, out, room):
    """``out = c + W1 e + W3 (e∘v)`` for the places from ``begin`` to ``end``.

    Args:
        values, queries, offsets, starts: the rows, and the runs that show them.
        constants: c of each run from ``first`` on.
        begin, end: at most CHUNK places.
        b: the first one's run, or one before.
        right: panels of W1ᵀ and of W3ᵀ.
        out: ``(end - begin, O)``, or wider rows.
        room: `room_for_pairs`.

    Returns:
        The last place's run.
    """
    (rows, products, sums), places, noted = room
    single, product = right
    outputs, inputs = constants.shape[1], values.shape[1]
    short, own, p = 0, 0, begin
    while p < end:
        b, stop, q = _segment_at(offsets, starts, p, end, b)
        query, constant, stretch = queries[b], constants[b - first], values[q : q + stop - p]
        if len(stretch) < MIN_LONG_SEGMENT:
            for r in range(len(stretch)):
                copy(constant, sums[short + r])
            short = _append_pairs(stretch, query, p - begin, rows, products, places, short)
        else:
            _describe_product(noted[own], stretch, query, constant, out[p - begin : stop - begin])
            own += 1
        p = stop
    if own:
        scaled_matmuls(
            ROWS_SCALED, noted[:own], values.strides[0], single, product, 0, out.strides[0], outputs
        )
    if short:
        matmul_add(rows[:short, :inputs], single, sums[:short, :outputs])
        matmul_add(products[:short, :inputs], product, sums[:short, :outputs])
        for s in range(short):
            copy(sums[s, :outputs], out[places[s], :outputs])
    return b


@njit_strict
def pair_backward_workspace(outputs, inputs):
    """What the gradients of a chunk need: rows, each place's number in the chunk, panels, segments and vectors of theirs, products."""
    most = CHUNK_ROWS // MIN_LONG_SEGMENT
    rows = row_buffer(CHUNK_ROWS, inputs), row_buffer(CHUNK_ROWS, inputs), row_buffer(CHUNK_ROWS, outputs)
    columns, own = zero_packed(CHUNK_ROWS, inputs), (zero_packed(most, inputs), zero_packed(most, inputs))
    segments, products = np.empty((most, 3), np.int64), np.empty((most, 5), np.int64)
    return rows, np.empty(CHUNK_ROWS, np.int64), columns, segments, own, products


@njit_strict
def zero_factor_gradients(outputs, inputs):
    """Room for the gradients of W1 and W3, as panels of 0."""
    return zero_packed(outputs, inputs), zero_packed(outputs, inputs)


@njit_no_refcount
def add_factor_gradients(sums, to_query, to_weight):
    """Add the gradients of `factors` to the weight's: of W1 and W3 in panels, of W2 as it is."""
    single, product = sums
    outputs, inputs = to_query.shape
    for o in range(outputs):
        to_row, of_query = to_weight[o], to_query[o]
        add(of_query, to_row[inputs : 2 * inputs])
        for j in range(len(single)):
            first = NR * j
            width = min(NR, inputs - first)
            of_row, of_product = single[j, o, :width], product[j, o, :width]
            add(of_row, to_row[first : first + width])
            add(of_product, to_row[2 * inputs + first : 2 * inputs + first + width])
            if len(to_row) > 3 * inputs:
                to_difference = to_row[3 * inputs + first : 3 * inputs + first + width]
                add(of_row, to_difference)
                subtract(of_query[first : first + width], to_difference)


@njit_no_refcount
def pair_layer_backward(
    flow, values, queries, to_constants, first, offsets, starts, begin, end, b, right, to_values, to_queries, sums, room
):  # fmt: skip
    """Take the gradient of `pairs_of` back to the rows, the queries, the constants, W1 and W3.

    Args:
        flow: of ``out``, in the first rows and columns.
        values, queries, first, offsets, starts, begin, end, b: as there.
        right: panels of W1 and of W3.
        to_values, to_queries, to_constants: as the rows, the queries and the constants; added to.
        sums: `panels_for_sums`.
        room: `room_for_gradients_of_pairs`.

    Returns:
        The last place's run.
    """
    (rows, products, _), places, columns, segments, (own_queries, _), noted = room
    single, product = right
    outputs = to_constants.shape[1]
    short, own, p = 0, 0, begin
    while p < end:
        b, stop, q = _segment_at(offsets, starts, p, end, b)
        query, stretch, given = queries[b], values[q : q + stop - p], flow[p - begin : stop - begin]
        for r in range(len(given)):  # a row of a slice of columns would not be vectorised
            add(given[r, :outputs], to_constants[b - first])
        if len(stretch) < MIN_LONG_SEGMENT:
            short = _append_pairs(stretch, query, p - begin, rows, products, places, short)
        else:
            segments[own] = p - begin, stop - begin, b
            stretch_to = to_values[q : q + stop - p]
            _describe_product(noted[own], given, query, stretch_to, stretch_to)
            _pack_rows(queries[b : b + 1], own_queries, own)
            _pack_rows(stretch, columns, p - begin)
            own += 1
        p = stop
    if own:
        scaled_matmuls(
            COLUMNS_SCALED, noted[:own], flow.strides[0], single, product, to_values.strides[0], to_values.strides[0],
            values.shape[1],
        )  # fmt: skip
        _long_segment_gradients(flow, segments[:own], right[1], to_queries, sums, room)
    if short:
        _short_segment_gradients(
            flow, values, queries, offsets, starts, begin, short, right, to_values, to_queries, sums, room
        )
    return b


@njit_no_refcount
def _long_segment_gradients(flow, segments, product, to_queries, sums, room):
    """The gradients of W1, W3 and the queries, of runs that have a matrix of their own: from ``G = flowᵀ e`` of each run."""
    _, _, columns, _, (own_queries, to_own), _ = room
    to_single, to_product = sums
    own, outputs = len(segments), product.shape[1]
    to_own[:, :own] = 0
    at, row = flow.ctypes.data, flow.strides[0]
    for j in range(len(product)):
        for o in range(0, outputs, SEGMENT_MR):
            add_segment_products(
                min(SEGMENT_MR, outputs - o), at + 4 * o, row, columns[j].ctypes.data, segments.ctypes.data, own,
                own_queries[j].ctypes.data, to_own[j].ctypes.data,
                product[j, o].ctypes.data, to_single[j, o].ctypes.data, to_product[j, o].ctypes.data,
            )  # fmt: skip
    for s in range(own):
        total = to_queries[segments[s, 2]]
        for j in range(len(product)):
            first = NR * j
            width = min(NR, len(total) - first)
            add(to_own[j, s, :width], total[first : first + width])


@njit_no_refcount
def _short_segment_gradients(
    flow, values, queries, offsets, starts, begin, short, right, to_values, to_queries, sums, room
):
    """The gradients of the paired rows."""
    (rows, products, flows), places, _, _, _, _ = room
    inputs, outputs = values.shape[1], right[0].shape[1]
    for s in range(short):
        copy(flow[places[s], :outputs], flows[s, :outputs])
    given = flows[:short, :outputs]
    _add_outer_products(given, rows[:short], sums[0])
    _add_outer_products(given, products[:short], sums[1])
    rows[:short] = 0
    products[:short] = 0
    matmul_add(given, right[0], rows[:short, :inputs])
    matmul_add(given, right[1], products[:short, :inputs])
    b = np.searchsorted(offsets, begin + places[0], side="right") - 1
    for s in range(short):
        p = begin + places[s]
        while offsets[b + 1] <= p:
            b += 1
        q = p - offsets[b] + starts[b]
        value, query, to_value, to_query = values[q], queries[b], to_values[q], to_queries[b]
        for j in range(inputs):
            to_value[j] += rows[s, j] + products[s, j] * query[j]
        for j in range(inputs):
            to_query[j] += products[s, j] * value[j]


@njit_no_refcount
def _add_outer_products(flow, rows, sums):
    """``sums += flowᵀ rows``, in panels."""
    for j in range(len(sums)):
        matmul_add(flow.T, rows[:, NR * j :], sums[j])


@njit(inline="always")
def _segment_at(offsets, starts, p, end, b):
    """The run of place p (b, or one after), the end of its places in the chunk, and the row that p shows."""
    while offsets[b + 1] <= p:
        b += 1
    return b, min(end, offsets[b + 1]), p - offsets[b] + starts[b]


@njit_no_refcount
def _append_pairs(stretch, query, place, rows, products, places, short):
    """Append the rows of a short run, and their products with its query."""
    for r in range(len(stretch)):
        value, single, product = stretch[r], rows[short], products[short]
        for j in range(len(value)):
            single[j] = value[j]
        for j in range(len(value)):
            product[j] = value[j] * query[j]
        places[short] = place + r
        short += 1
    return short


@njit(inline="always")
def _describe_product(product, left, factors, start, out):
    """A product for `tiles.put_products_of_two`."""
    product[0] = len(left)
    product[1], product[2] = left.ctypes.data, factors.ctypes.data
    product[3], product[4] = start.ctypes.data, out.ctypes.data


@njit_no_refcount
def _pack_rows(rows, out, place):
    """Rows over the panels ``out``, from ``place`` on, as `panels`; what the last panel has more stays."""
    for j in range(len(out)):
        first, panel = NR * j, out[j]
        for r in range(len(rows)):
            part, row = rows[r, first : min(first + NR, rows.shape[1])], panel[place + r]
            for c in range(len(part)):
                row[c] = part[c]
