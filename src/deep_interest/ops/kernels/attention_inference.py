"""DIN's attention without gradients: no pre-activation is kept, and products that many candidates share are computed once."""

from typing import NamedTuple

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm import ROWS_SCALED, matmul_add, pack, row_buffer, scaled_matmuls
from deep_interest.ops.kernels.jagged import segment_partition
from deep_interest.ops.kernels.mlp_chunk import CHUNK_ROWS, forward_chunk, forward_workspace, layer_at
from deep_interest.ops.kernels.pair_layer import describe_product, pair_layer_forward, pair_workspace
from deep_interest.ops.kernels.pooling import pool_segments
from deep_interest.ops.kernels.vector import copy
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


class CommonColumns(NamedTuple):
    """Pairs of one history with all queries, whose columns are split into common ones, of few distinct values, and the others.

    The queries are ordered by their common columns.

    Attributes:
        rows: ``(T, O)``, the behaviours times W1.
        behavior: ``(T,)`` int64, row of ``distinct`` of each behaviour.
        query: ``(B,)`` int64, number of each query's common columns.
        common, other: packed ``(Kc, O)`` and ``(Ko, O)`` parts of W3ᵀ.
        distinct_values, query_values: ``(H, Kc)`` and ``(B, Kc)``, the common columns.
        values, queries: ``(T, Ko)`` and ``(B, Ko)``, the other columns.
    """

    rows: np.ndarray
    behavior: np.ndarray
    query: np.ndarray
    common: np.ndarray
    other: np.ndarray
    distinct_values: np.ndarray
    query_values: np.ndarray
    values: np.ndarray
    queries: np.ndarray


@kernel
def attention_pool_inference(pairs, params, packed, scale, weights, pooled, partition, partitions):
    """As `attention.attention_pool_forward`, without pre-activations.

    Args:
        pairs, params, packed: as there.
        scale: scale of the softmax over the scores; 0 for none.
        weights: OUT ``(N, 1)`` what the behaviours are multiplied by.
        pooled: OUT ``(B, D)``.
    """
    packed_factors, packed_w2, packed_layers = packed
    inputs, outputs = pairs.values.shape[1], params.widths[1]
    workspace, layer_workspace = forward_workspace(params.widths), pair_workspace(outputs, inputs)
    buffer = row_buffer(CHUNK_ROWS, params.widths[1:].sum())
    first, last = segment_partition(pairs.offsets, partition, partitions)
    constants = _constants(params, pairs.queries[first:last], packed_w2)
    b = first
    for begin in range(pairs.offsets[first], pairs.offsets[last], CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, pairs.offsets[last])
        hidden = buffer[: end - begin]
        b = pair_layer_forward(
            pairs, constants, first, begin, end, b, packed_factors, hidden, layer_workspace
        )
        forward_chunk(params, packed_layers, hidden, weights[begin:end], workspace)
    pool_segments(pairs, first, last, scale, weights, pooled)


@kernel
def attention_pool_common(pairs, columns, params, packed, scale, weights, pooled, partition, partitions):
    """As `attention_pool_inference`, for `CommonColumns`."""
    _, packed_w2, packed_layers = packed
    outputs, history = params.widths[1], len(columns.rows)
    workspace, buffer = forward_workspace(params.widths), row_buffer(CHUNK_ROWS, params.widths[1:].sum())
    products, descriptor = row_buffer(len(columns.distinct_values), outputs), np.empty((1, 5), np.int64)
    zeros = np.zeros(outputs, float32)
    no_common, no_other = np.zeros_like(columns.common), np.zeros_like(columns.other)
    first, last = partition_bounds(len(pairs.queries), partition, partitions)
    constants = _constants(params, pairs.queries[first:last], packed_w2)
    current = -1
    for b in range(first, last):
        if columns.query[b] != current:
            current = columns.query[b]
            _scaled_product(
                columns.distinct_values,
                columns.query_values[b],
                zeros,
                0,
                no_common,
                columns.common,
                products,
                descriptor,
                outputs,
            )
        constant = constants[b - first]
        for begin in range(0, history, CHUNK_ROWS):
            end = min(begin + CHUNK_ROWS, history)
            hidden = buffer[: end - begin]
            _add_rows(constant, columns, products, begin, hidden)
            _scaled_product(
                columns.values[begin:end],
                columns.queries[b],
                hidden,
                hidden.strides[0],
                no_other,
                columns.other,
                hidden,
                descriptor,
                outputs,
            )
            p = b * history + begin
            forward_chunk(params, packed_layers, hidden, weights[p : p + end - begin], workspace)
    pool_segments(pairs, first, last, scale, weights, pooled)


@njit_strict
def _constants(params, queries, packed_w2):
    """Return the bias and W2 v of each query."""
    bias = layer_at(params, 0)[1]
    constants = np.empty((len(queries), len(bias)), float32)
    for b in range(len(queries)):
        copy(bias, constants[b])
    matmul_add(queries, packed_w2, constants)
    return constants


@njit_no_refcount
def _add_rows(constant, columns, products, begin, out):
    """Sum the constant, the row of each behaviour, and its product of common columns."""
    for r in range(len(out)):
        row, product, total = columns.rows[begin + r], products[columns.behavior[begin + r]], out[r]
        for j in range(len(constant)):
            total[j] = constant[j] + row[j] + product[j]


@njit_no_refcount
def _scaled_product(left, factors, start, start_row, zeros, right, out, descriptor, outputs):
    """``out = start + left @ diag(factors) @ right``."""
    describe_product(descriptor[0], left, factors, start, out)
    strides = (left.strides[0], start_row, out.strides[0])
    scaled_matmuls(ROWS_SCALED, descriptor, strides, zeros, right, outputs)


@kernel
def pack_columns(weight, columns):
    """Pack some columns of a weight ``(O, D)``, transposed."""
    return pack(weight[:, columns].T)
