"""Kernels of DIN's attention: an MLP over pairs of behaviour and query, and the sum of the behaviours by its scores."""

from typing import NamedTuple

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm import matmul_add, pack, pack_into, packed_buffer
from deep_interest.ops.kernels.jagged import segment_partition, shared_segment_partition
from deep_interest.ops.kernels.mlp_chunk import (
    CHUNK_ROWS,
    MLPParams,
    backward_chunk,
    backward_workspace,
    forward_chunk,
    forward_workspace,
    layer_at,
    pack_backward_layers,
    pack_forward_layers,
)
from deep_interest.ops.kernels.pair_layer import (
    PairLayerGrads,
    add_factor_grads,
    factorize,
    long_segments,
    packed_factor_zeros,
    pair_layer_forward,
    pair_workspace,
)
from deep_interest.ops.kernels.pair_layer_backward import pair_layer_backward
from deep_interest.ops.kernels.pooling import pool_segments, pool_segments_backward
from deep_interest.ops.kernels.vector import add, copy, partition_sums
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict


class PairGrads(NamedTuple):
    """Gradients of `pair_mlp_forward`.

    Attributes:
        values: ``(M, D)``.
        queries: ``(B, D)``.
        params: ``(partitions, P)``, see `partition_sums`.
    """

    values: np.ndarray
    queries: np.ndarray
    params: np.ndarray


@kernel
def pack_pair_forward(params, inputs):
    """Pack the weights for `pair_mlp_forward`, once for all partitions: W1 and W3 of `factorize`, W2, the other layers.

    Args:
        params: `MLPParams`.
        inputs: D.
    """
    w1, w2, w3 = factorize(layer_at(params, 0)[0], inputs)
    return (pack(w1.T), pack(w3.T)), pack(w2.T), pack_forward_layers(params)


@kernel
def pack_pair_backward(params, inputs):
    """As `pack_pair_forward`, for the backward pass."""
    w1, w2, w3 = factorize(layer_at(params, 0)[0], inputs)
    return (pack(w1), pack(w3)), pack(w2), pack_backward_layers(params)


@njit_strict
def pair_mlp_forward(pairs, params, packed, pre_activations, out, partition, partitions):
    """Apply an MLP to all pairs.

    Args:
        pairs: `pair_layer.Pairs`.
        params: `MLPParams`.
        packed: result of `pack_pair_forward`.
        pre_activations: OUT ``(N, Σ widths[1:])``.
        out: OUT ``(N, widths[-1])``.
    """
    packed_factors, packed_w2, packed_layers = packed
    inputs, outputs, bias = pairs.values.shape[1], params.widths[1], layer_at(params, 0)[1]
    workspace, layer_workspace = forward_workspace(params.widths), pair_workspace(outputs, inputs)
    first, last = segment_partition(pairs.offsets, partition, partitions)
    constants = np.empty((last - first, outputs), float32)
    for b in range(last - first):
        copy(bias, constants[b])
    matmul_add(pairs.queries[first:last], packed_w2, constants)
    b = first
    for begin in range(pairs.offsets[first], pairs.offsets[last], CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, pairs.offsets[last])
        hidden = pre_activations[begin:end]
        b = pair_layer_forward(
            pairs, constants, first, begin, end, b, packed_factors, hidden, layer_workspace
        )
        forward_chunk(params, packed_layers, hidden, out[begin:end], workspace)


@kernel
def attention_pool_forward(
    pairs, params, packed, scale, pre_activations, weights, pooled, partition, partitions
):
    """Apply an MLP to all pairs and sum the behaviours of each segment by their scores.

    Args:
        pairs, params, packed, pre_activations: as in `pair_mlp_forward`.
        scale: scale of the softmax over the scores; 0 for none.
        weights: OUT ``(N, 1)`` what the behaviours are multiplied by.
        pooled: OUT ``(B, D)``.
    """
    pair_mlp_forward(pairs, params, packed, pre_activations, weights, partition, partitions)
    first, last = segment_partition(pairs.offsets, partition, partitions)
    pool_segments(pairs, first, last, scale, weights, pooled)


@kernel
def pair_mlp_backward(grad_output, pairs, params, packed, pre_activations, grads, partition, partitions):
    """Compute the gradients of `pair_mlp_forward`.

    Args:
        grad_output: ``(N, widths[-1])``.
        pairs, params, pre_activations: as there.
        packed: result of `pack_pair_backward`.
        grads: OUT `PairGrads`.
    """
    first, last = shared_segment_partition(pairs.offsets, pairs.starts, partition, partitions)
    _clear_segments(grads.values, pairs.offsets, pairs.starts, first, last)
    _backward(grad_output, pairs, params, packed, pre_activations, grads, None, partition, partitions)


@kernel
def attention_pool_backward(pool, pairs, params, packed, saved, grads, partition, partitions):
    """Compute the gradients of `attention_pool_forward`.

    Args:
        pool: `PoolGrad`.
        pairs, params: as there.
        packed: result of `pack_pair_backward`.
        saved: ``pre_activations`` and a buffer ``(N, 1)`` for the gradient of the scores.
        grads: OUT `PairGrads`.
    """
    pre_activations, grad_scores = saved
    _backward(grad_scores, pairs, params, packed, pre_activations, grads, pool, partition, partitions)


@njit_strict
def _backward(grad_output, pairs, params, packed, pre_activations, grads, pool, partition, partitions):
    """Compute gradients, chunk by chunk; without ``pool`` those of the values are added to.

    Args:
        grad_output: gradient of the MLP's output; with ``pool`` a buffer for it.
        pool: `PoolGrad`, or None if the behaviours are not pooled.
    """
    packed_factors, packed_w2, packed_layers = packed
    mlp_grads = MLPParams(partition_sums(grads.params, partition), params.widths, params.activations)
    workspace = backward_workspace(params.widths)
    inputs, outputs = pairs.values.shape[1], params.widths[1]
    layer_workspaces = pair_workspace(outputs, inputs), long_segments(inputs)
    factors = packed_factor_zeros(outputs, inputs)
    first, last = shared_segment_partition(pairs.offsets, pairs.starts, partition, partitions)
    grad_constants = np.zeros((last - first, outputs), float32)
    layer_grads = PairLayerGrads(grads.values, grads.queries, grad_constants, factors)
    grads.queries[first:last] = 0
    b = pool_segment = first
    initialized = 0
    for begin in range(pairs.offsets[first], pairs.offsets[last], CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, pairs.offsets[last])
        if pool is not None:
            pool_segment, initialized = pool_segments_backward(
                pool, pairs, pool_segment, last, end, initialized, grad_output, grads.values
            )
        grad_hidden = backward_chunk(
            grad_output[begin:end], params, packed_layers, pre_activations[begin:end], mlp_grads, workspace
        )
        b = pair_layer_backward(
            grad_hidden, pairs, first, begin, end, b, packed_factors, layer_grads, layer_workspaces
        )
    grad_weight, grad_bias, _ = layer_at(mlp_grads, 0)
    for b in range(last - first):
        add(grad_constants[b], grad_bias)
    matmul_add(grad_constants, packed_w2, grads.queries[first:last])
    grad_w2 = np.zeros((outputs, inputs), float32)
    packed_queries = packed_buffer(CHUNK_ROWS, inputs)
    for begin in range(0, last - first, CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, last - first)
        pack_into(pairs.queries[first + begin : first + end], inputs, packed_queries)
        matmul_add(grad_constants[begin:end].T, packed_queries, grad_w2)
    add_factor_grads(factors, grad_w2, grad_weight)


@njit_no_refcount
def _clear_segments(rows, offsets, starts, first, last):
    """Set the rows of the behaviours of some segments to 0."""
    cleared = 0
    for b in range(first, last):
        end = starts[b] + offsets[b + 1] - offsets[b]
        rows[max(cleared, starts[b]) : end] = 0
        cleared = max(cleared, end)
