"""Gradients of the first layer over pairs, for a chunk of pairs; see `pair_layer`."""

import numpy as np
from numpy import int64

from deep_interest.ops.kernels.gemm import COLUMNS_SCALED, add_segment_products, matmul_add, scaled_matmuls
from deep_interest.ops.kernels.gemm_llvm import NR, SEGMENT_MR
from deep_interest.ops.kernels.pair_layer import (
    MIN_LONG_SEGMENT,
    append_pairs,
    describe_product,
    segment_at,
)
from deep_interest.ops.kernels.vector import add, copy
from deep_interest.ops.runtime.jit import njit_no_refcount


@njit_no_refcount
def pair_layer_backward(grad_hidden, pairs, first, begin, end, b, packed, grads, workspaces):
    """Add the gradients of `pair_layer.pair_layer_forward`.

    Args:
        grad_hidden: gradient of ``out``, in the first rows and columns.
        pairs, first, begin, end, b: as there.
        packed: W1 and W3.
        grads: INOUT `PairLayerGrads`.
        workspaces: `pair_workspace` and `long_segments`.

    Returns:
        The segment of the last pair.
    """
    workspace, long_segments = workspaces
    rows, products, _, positions, descriptors = workspace
    bounds, packed_values, packed_queries, _ = long_segments
    values, queries, offsets, starts = pairs
    w1, w3 = packed
    outputs = grads.constants.shape[1]
    short, long, p = 0, 0, begin
    while p < end:
        b, stop, q = segment_at(offsets, starts, p, end, b)
        query, segment, grad = queries[b], values[q : q + stop - p], grad_hidden[p - begin : stop - begin]
        for r in range(len(grad)):  # a row of a slice of columns would not be vectorised
            add(grad[r, :outputs], grads.constants[b - first])
        if len(segment) < MIN_LONG_SEGMENT:
            short = append_pairs(segment, query, p - begin, rows, products, positions, short)
        else:
            bounds[long] = p - begin, stop - begin, b
            grad_segment = grads.values[q : q + stop - p]
            describe_product(descriptors[long], grad, query, grad_segment, grad_segment)
            _pack_rows(queries[b : b + 1], packed_queries, long)
            _pack_rows(segment, packed_values, p - begin)
            long += 1
        p = stop
    if long:
        strides = (grad_hidden.strides[0], grads.values.strides[0], grads.values.strides[0])
        scaled_matmuls(COLUMNS_SCALED, descriptors[:long], strides, w1, w3, values.shape[1])
        _add_long_segments(grad_hidden, long, w3, grads, long_segments)
    if short:
        _add_short_segments(grad_hidden, pairs, begin, short, packed, grads, workspace)
    return b


@njit_no_refcount
def _add_long_segments(grad_hidden, count, w3, grads, long_segments):
    """Add the gradients of W1, W3 and the queries of long segments, from ``G = grad_hiddenᵀ e`` of each segment."""
    bounds, values, queries, grad_queries = long_segments
    grad_w1, grad_w3 = grads.factors
    outputs = w3.shape[1]
    grad_queries[:, :count] = 0
    address, row = int64(grad_hidden.ctypes.data), grad_hidden.strides[0]
    for j in range(len(w3)):
        query = (int64(queries[j].ctypes.data), int64(grad_queries[j].ctypes.data))
        for o in range(0, outputs, SEGMENT_MR):
            sums = (
                int64(w3[j, o].ctypes.data), int64(grad_w1[j, o].ctypes.data), int64(grad_w3[j, o].ctypes.data)
            )  # fmt: skip
            add_segment_products(
                min(SEGMENT_MR, outputs - o), (address + 4 * o, row), int64(values[j].ctypes.data),
                int64(bounds.ctypes.data), count, query, sums,
            )  # fmt: skip
    for s in range(count):
        total = grads.queries[bounds[s, 2]]
        for j in range(len(w3)):
            first = NR * j
            width = min(NR, len(total) - first)
            add(grad_queries[j, s, :width], total[first : first + width])


@njit_no_refcount
def _add_short_segments(grad_hidden, pairs, begin, count, packed, grads, workspace):
    """Add the gradients of the ``count`` pairs of short segments that the workspace holds."""
    rows, products, hidden, positions, _ = workspace
    values, queries, offsets, starts = pairs
    w1, w3 = packed
    inputs, outputs = values.shape[1], w1.shape[1]
    for s in range(count):
        copy(grad_hidden[positions[s], :outputs], hidden[s, :outputs])
    grad = hidden[:count, :outputs]
    _add_outer_products(grad, rows[:count], grads.factors[0])
    _add_outer_products(grad, products[:count], grads.factors[1])
    rows[:count] = 0
    products[:count] = 0
    matmul_add(grad, w1, rows[:count, :inputs])
    matmul_add(grad, w3, products[:count, :inputs])
    b = np.searchsorted(offsets, begin + positions[0], side="right") - 1
    for s in range(count):
        p = begin + positions[s]
        while offsets[b + 1] <= p:
            b += 1
        q = p - offsets[b] + starts[b]
        value, query, grad_value, grad_query = values[q], queries[b], grads.values[q], grads.queries[b]
        for j in range(inputs):
            grad_value[j] += rows[s, j] + products[s, j] * query[j]
        for j in range(inputs):
            grad_query[j] += products[s, j] * value[j]


@njit_no_refcount
def _add_outer_products(grad, rows, sums):
    """``sums += gradᵀ rows``, packed."""
    for j in range(len(sums)):
        matmul_add(grad.T, rows[:, NR * j :], sums[j])


@njit_no_refcount
def _pack_rows(rows, out, position):
    """Pack rows into the panels ``out`` from row ``position`` on; the padding of the last panel is left unchanged."""
    for j in range(len(out)):
        first, panel = NR * j, out[j]
        for r in range(len(rows)):
            source, row = rows[r, first : min(first + NR, rows.shape[1])], panel[position + r]
            for c in range(len(source)):
                row[c] = source[c]
