"""Softmax of the dot products of behaviours with the queries of many candidates that share them, for inference."""

import numpy as np

from deep_interest.ops.kernels.activations import exp_of_negative
from deep_interest.ops.kernels.gemm import matmul_add, pack, packed_zeros
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def shared_attention_forward(values, queries, offsets, starts, groups, weights, partition, partitions):
    """Compute the weights of each segment; they sum to 1.

    Args:
        values: ``(M, D)`` behaviours.
        queries: ``(B, D)``.
        offsets, starts: ``(B + 1,)`` and ``(B,)`` segments of the behaviours.
        groups: ``(g, 2)`` first segment and number of segments with the same behaviours, see `gru_lanes.shared_groups`.
        weights: OUT ``(N,)``.
    """
    first, last = partition_bounds(len(groups), partition, partitions)
    start = length = -1
    packed = packed_zeros(1, 1)
    for g in range(first, last):
        segment, count = groups[g]
        if starts[segment] != start or offsets[segment + 1] - offsets[segment] != length:
            start, length = starts[segment], offsets[segment + 1] - offsets[segment]
            packed = pack(values[start : start + length].T)
        if not length:
            continue
        rows = weights[offsets[segment] : offsets[segment + count]].reshape((count, length))
        rows[:] = 0
        matmul_add(queries[segment : segment + count], packed, rows)
        for r in range(count):
            row = rows[r]
            top = row.max()
            for t in range(length):
                row[t] = exp_of_negative(row[t] - top)
            total = np.float32(0)
            for t in range(length):
                total += row[t]
            scale = np.float32(1) / total
            for t in range(length):
                row[t] *= scale
