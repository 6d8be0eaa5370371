"""The first layer of an MLP over pairs of a behaviour e and its segment's query v, for a chunk of pairs.

With the weight split as in `factorize`, ``W1 e + W3 (e∘v) = (W1 + W3 diag v) e``: a segment with several behaviours
in the chunk has a matrix of its own, which halves the products forward and backward; it is formed in registers
while it is multiplied with. The behaviours of shorter segments are multiplied with their queries, and the products
with W1 and W3 are made for all of them at once.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from deep_interest.ops.kernels.gemm import (
    ROWS_SCALED,
    matmul_add,
    packed_zeros,
    row_buffer,
    scaled_matmuls,
)
from deep_interest.ops.kernels.gemm_llvm import NR
from deep_interest.ops.kernels.mlp_chunk import CHUNK_ROWS
from deep_interest.ops.kernels.vector import add, copy, subtract
from deep_interest.ops.runtime.jit import njit_no_refcount, njit_strict

MIN_LONG_SEGMENT = 5  # behaviours of a segment in a chunk from which on the segment has a matrix of its own
_MAX_LONG_SEGMENTS = CHUNK_ROWS // MIN_LONG_SEGMENT


class Pairs(NamedTuple):
    """Pairs of a behaviour and its segment's query.

    Attributes:
        values: ``(M, D)`` behaviours e.
        queries: ``(B, D)`` queries v of the segments.
        offsets: ``(B + 1,)``; segment b has the pairs ``[offsets[b], offsets[b + 1])``.
        starts: ``(B,)`` row of the first behaviour of each segment.
    """

    values: np.ndarray
    queries: np.ndarray
    offsets: np.ndarray
    starts: np.ndarray


class PairLayerGrads(NamedTuple):
    """Gradients of `pair_layer_forward`; all are added to.

    Attributes:
        values: ``(M, D)``.
        queries: ``(B, D)``.
        constants: gradients of the constants, as these.
        factors: packed gradients of W1 and W3, see `packed_factor_zeros`.
    """

    values: np.ndarray
    queries: np.ndarray
    constants: np.ndarray
    factors: tuple[np.ndarray, np.ndarray]


class PairWorkspace(NamedTuple):
    """Buffers of `pair_layer_forward` and `pair_layer_backward`.

    Attributes:
        rows: row buffer of the behaviours of short segments.
        products: row buffer of their products with the query.
        hidden: row buffer of their pre-activations, or the gradients of these.
        positions: ``(CHUNK_ROWS,)`` their positions in the chunk.
        descriptors: ``(S, 5)`` products of the long segments for `scaled_matmuls`.
    """

    rows: np.ndarray
    products: np.ndarray
    hidden: np.ndarray
    positions: np.ndarray
    descriptors: np.ndarray


class LongSegments(NamedTuple):
    """Buffers of `pair_layer_backward` for the long segments of a chunk.

    Attributes:
        bounds: ``(S, 3)`` first pair in the chunk, the first after it, segment.
        values: packed behaviours of the chunk.
        queries: packed queries of the segments.
        grad_queries: packed gradients of the queries.
    """

    bounds: np.ndarray
    values: np.ndarray
    queries: np.ndarray
    grad_queries: np.ndarray


@njit_strict
def factorize(weight, inputs):
    """Split the weight of ``[e; v; e∘v]`` or ``[e; v; e∘v; e-v]`` into W1 of e, W2 of v and W3 of e∘v.

    Args:
        weight: ``(O, 3 D)`` or ``(O, 4 D)``.
        inputs: D.

    Returns:
        Three arrays ``(O, D)``.
    """
    w1, w2 = weight[:, :inputs].copy(), weight[:, inputs : 2 * inputs].copy()
    if weight.shape[1] > 3 * inputs:
        for o in range(len(weight)):
            for j in range(inputs):
                difference = weight[o, 3 * inputs + j]
                w1[o, j] += difference
                w2[o, j] -= difference
    return w1, w2, weight[:, 2 * inputs : 3 * inputs].copy()


@njit_strict
def pair_workspace(outputs, inputs):
    """Return the `PairWorkspace` of a layer."""
    rows, products = row_buffer(CHUNK_ROWS, inputs), row_buffer(CHUNK_ROWS, inputs)
    positions, descriptors = np.empty(CHUNK_ROWS, np.int64), np.empty((_MAX_LONG_SEGMENTS, 5), np.int64)
    return PairWorkspace(rows, products, row_buffer(CHUNK_ROWS, outputs), positions, descriptors)


@njit_strict
def long_segments(inputs):
    """Return the `LongSegments` of a layer."""
    bounds, values = np.empty((_MAX_LONG_SEGMENTS, 3), np.int64), packed_zeros(CHUNK_ROWS, inputs)
    queries, grad_queries = packed_zeros(_MAX_LONG_SEGMENTS, inputs), packed_zeros(_MAX_LONG_SEGMENTS, inputs)
    return LongSegments(bounds, values, queries, grad_queries)


@njit_strict
def packed_factor_zeros(outputs, inputs):
    """Return zeros for the gradients of W1 and W3, packed."""
    return packed_zeros(outputs, inputs), packed_zeros(outputs, inputs)


@njit_no_refcount
def pair_layer_forward(pairs, constants, first, begin, end, b, packed, out, workspace):
    """``out = c + W1 e + W3 (e∘v)`` for the pairs ``[begin, end)``.

    Args:
        pairs: `Pairs`.
        constants: c of each segment from ``first`` on.
        first: first segment of the partition.
        begin, end: at most CHUNK_ROWS pairs.
        b: segment of the first pair, or one before.
        packed: W1ᵀ and W3ᵀ.
        out: OUT ``(end - begin, O)`` or wider rows.
        workspace: `pair_workspace`.

    Returns:
        The segment of the last pair.
    """
    rows, products, hidden, positions, descriptors = workspace
    values, queries, offsets, starts = pairs
    w1, w3 = packed
    outputs, inputs = constants.shape[1], values.shape[1]
    short, long, p = 0, 0, begin
    while p < end:
        b, stop, q = segment_at(offsets, starts, p, end, b)
        query, constant, segment = queries[b], constants[b - first], values[q : q + stop - p]
        if len(segment) < MIN_LONG_SEGMENT:
            for r in range(len(segment)):
                copy(constant, hidden[short + r])
            short = append_pairs(segment, query, p - begin, rows, products, positions, short)
        else:
            describe_product(descriptors[long], segment, query, constant, out[p - begin : stop - begin])
            long += 1
        p = stop
    if long:
        strides = (values.strides[0], 0, out.strides[0])
        scaled_matmuls(ROWS_SCALED, descriptors[:long], strides, w1, w3, outputs)
    if short:
        matmul_add(rows[:short, :inputs], w1, hidden[:short, :outputs])
        matmul_add(products[:short, :inputs], w3, hidden[:short, :outputs])
        for s in range(short):
            copy(hidden[s, :outputs], out[positions[s], :outputs])
    return b


@njit_no_refcount
def add_factor_grads(factors, grad_w2, grad_weight):
    """Add the gradients of the results of `factorize` to the gradient of the weight.

    Args:
        factors: packed gradients of W1 and W3.
        grad_w2: ``(O, D)``.
        grad_weight: INOUT ``(O, 3 D or 4 D)``.
    """
    grad_w1, grad_w3 = factors
    outputs, inputs = grad_w2.shape
    for o in range(outputs):
        grad_row, grad_w2_row = grad_weight[o], grad_w2[o]
        add(grad_w2_row, grad_row[inputs : 2 * inputs])
        for j in range(len(grad_w1)):
            first = NR * j
            width = min(NR, inputs - first)
            grad_w1_row, grad_w3_row = grad_w1[j, o, :width], grad_w3[j, o, :width]
            add(grad_w1_row, grad_row[first : first + width])
            add(grad_w3_row, grad_row[2 * inputs + first : 2 * inputs + first + width])
            if len(grad_row) > 3 * inputs:
                grad_difference = grad_row[3 * inputs + first : 3 * inputs + first + width]
                add(grad_w1_row, grad_difference)
                subtract(grad_w2_row[first : first + width], grad_difference)


@njit(inline="always")
def segment_at(offsets, starts, p, end, b):
    """Return the segment of pair p (b or later), the end of its pairs in the chunk, and the row of its behaviour."""
    while offsets[b + 1] <= p:
        b += 1
    return b, min(end, offsets[b + 1]), p - offsets[b] + starts[b]


@njit_no_refcount
def append_pairs(segment, query, position, rows, products, positions, count):
    """Append the behaviours of a short segment and their products with its query; returns the new count."""
    for r in range(len(segment)):
        value, row, product = segment[r], rows[count], products[count]
        for j in range(len(value)):
            row[j] = value[j]
        for j in range(len(value)):
            product[j] = value[j] * query[j]
        positions[count] = position + r
        count += 1
    return count


@njit(inline="always")
def describe_product(descriptor, left, factors, start, out):
    """Describe a product for `gemm.scaled_matmuls`; OUT ``descriptor (5,)``."""
    descriptor[0] = len(left)
    descriptor[1], descriptor[2] = left.ctypes.data, factors.ctypes.data
    descriptor[3], descriptor[4] = start.ctypes.data, out.ctypes.data
