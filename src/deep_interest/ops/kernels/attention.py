"""A net over pairs of a row and its run's query: DIN's activation unit, in one pass while the rows are in the cache."""

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm import matmul_add, pack, pack_into, packed_buffer
from deep_interest.ops.kernels.jagged import segment_partition, shared_segment_partition
from deep_interest.ops.kernels.mlp_chunk import (
    CHUNK_ROWS,
    backward_chunk,
    backward_workspace,
    forward_chunk,
    forward_workspace,
    layer_at,
    pack_backward_layers,
    pack_forward_layers,
)
from deep_interest.ops.kernels.pair_layer import (
    add_factor_gradients,
    factorize,
    pair_backward_workspace,
    pair_layer_backward,
    pair_layer_forward,
    pair_workspace,
    zero_factor_gradients,
)
from deep_interest.ops.kernels.pooling import pool_segments, pool_segments_backward
from deep_interest.ops.kernels.vector import add, copy, partition_sums
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict


@kernel
def pack_pair_forward(numbers, widths, kinds, inputs):
    """What the parts of a forward pass multiply with, as panels: by W1 and W3 of `factors`, by W2, and in the other layers."""
    of_row, of_query, of_product = factorize(layer_at(numbers, widths, kinds, 0)[0], inputs)
    pairs = pack(of_row.T), pack(of_product.T)
    return pairs, pack(of_query.T), pack_forward_layers(numbers, widths, kinds)


@kernel
def pack_pair_backward(numbers, widths, kinds, inputs):
    """As `forward_rights`, of a backward pass."""
    of_row, of_query, of_product = factorize(layer_at(numbers, widths, kinds, 0)[0], inputs)
    pairs = pack(of_row), pack(of_product)
    return pairs, pack(of_query), pack_backward_layers(numbers, widths, kinds)


@njit_strict
def pair_mlp_forward(
    values, queries, offsets, starts, numbers, widths, kinds, rights, before, out, part, parts
):
    """Fill ``before`` and ``out``; ``rights`` are `forward_rights`."""
    of_pairs, of_query, right = rights
    inputs, outputs, bias = values.shape[1], widths[1], layer_at(numbers, widths, kinds, 0)[1]
    room, pair_room = forward_workspace(widths), pair_workspace(outputs, inputs)
    first, last = segment_partition(offsets, part, parts)
    constants = np.empty((last - first, outputs), float32)
    for b in range(last - first):
        copy(bias, constants[b])
    matmul_add(queries[first:last], of_query, constants)
    b = first
    for begin in range(offsets[first], offsets[last], CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, offsets[last])
        b = pair_layer_forward(
            values, queries, constants, first, offsets, starts, begin, end, b, of_pairs,
            before[begin:end], pair_room,
        )  # fmt: skip
        forward_chunk(numbers, widths, kinds, right, before[begin:end], out[begin:end], room)


@kernel
def pair_mlp_backward(
    grad, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
    to_values, to_queries, to_numbers, part, parts,
):  # fmt: skip
    first, last = shared_segment_partition(offsets, starts, part, parts)
    _clear_segments(to_values, offsets, starts, first, last)
    _backward_pairs(
        grad, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
        to_values, to_queries, to_numbers, part, parts, None,
    )  # fmt: skip


@njit_strict
def _backward_pairs(
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
    totals, room = partition_sums(to_numbers, part), backward_workspace(widths)
    inputs, outputs = values.shape[1], widths[1]
    pair_room, sums = pair_backward_workspace(outputs, inputs), zero_factor_gradients(outputs, inputs)
    first, last = shared_segment_partition(offsets, starts, part, parts)
    to_constants = np.zeros((last - first, outputs), float32)
    to_queries[first:last] = 0
    b = of_pool = first
    shown = 0
    for begin in range(offsets[first], offsets[last], CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, offsets[last])
        if pool is not None:
            of_pool, shown = pool_segments_backward(
                pool[0], values, offsets, starts, of_pool, last, end, shown, pool[1], pool[2], grad, to_values
            )
        flows = backward_chunk(
            grad[begin:end], numbers, widths, kinds, right, before[begin:end], totals, room
        )
        b = pair_layer_backward(
            flows, values, queries, to_constants, first, offsets, starts, begin, end, b,
            of_pairs, to_values, to_queries, sums, pair_room,
        )  # fmt: skip
    to_weight, to_bias, _ = layer_at(totals, widths, kinds, 0)
    for b in range(last - first):
        add(to_constants[b], to_bias)
    matmul_add(to_constants, of_query, to_queries[first:last])
    to_query = np.zeros((outputs, inputs), float32)
    columns = packed_buffer(CHUNK_ROWS, inputs)
    for begin in range(0, last - first, CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, last - first)
        pack_into(queries[first + begin : first + end], inputs, columns)
        matmul_add(to_constants[begin:end].T, columns, to_query)
    add_factor_gradients(sums, to_query, to_weight)


@njit_no_refcount
def _clear_segments(rows, offsets, starts, first, last):
    """Set the rows that some runs show to 0."""
    done = 0
    for b in range(first, last):
        end = starts[b] + offsets[b + 1] - offsets[b]
        rows[max(done, starts[b]) : end] = 0
        done = max(done, end)


@kernel
def attention_pool_forward(
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
    pair_mlp_forward(
        values, queries, offsets, starts, numbers, widths, kinds, rights, before, weights, part, parts
    )
    first, last = segment_partition(offsets, part, parts)
    pool_segments(values, offsets, starts, first, last, scale, weights, pooled)


@kernel
def attention_pool_backward(
    grad, values, queries, offsets, starts, numbers, widths, kinds, rights, scale, before, weights, to_scores,
    to_values, to_queries, to_numbers, part, parts,
):  # fmt: skip
    _backward_pairs(
        to_scores, values, queries, offsets, starts, numbers, widths, kinds, rights, before,
        to_values, to_queries, to_numbers, part, parts, (grad, scale, weights),
    )  # fmt: skip
