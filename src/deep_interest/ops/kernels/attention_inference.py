"""DIN's attention without gradients: no pre-activation is kept, and products that many candidates share are computed once."""

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm import matmul_add, row_buffer
from deep_interest.ops.kernels.jagged import segment_partition
from deep_interest.ops.kernels.mlp_chunk import CHUNK_ROWS, forward_chunk, forward_workspace, layer_at
from deep_interest.ops.kernels.pair_layer import pair_layer_forward, pair_workspace
from deep_interest.ops.kernels.pooling import pool_segments
from deep_interest.ops.kernels.vector import copy
from deep_interest.ops.runtime.jit import kernel, njit_strict


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


@njit_strict
def _constants(params, queries, packed_w2):
    """Return the bias and W2 v of each query."""
    bias = layer_at(params, 0)[1]
    constants = np.empty((len(queries), len(bias)), float32)
    for b in range(len(queries)):
        copy(bias, constants[b])
    matmul_add(queries, packed_w2, constants)
    return constants
