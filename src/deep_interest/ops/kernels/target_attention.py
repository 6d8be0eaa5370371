"""Loops of target attention: softmax of the dot products of a segment's values with its queries, and the weighted sums.

Shapes: ``values (M, D)``, ``queries (B, H, D)`` for H heads, P pairs of a segment and one of its values.
"""

import numpy as np

from deep_interest.ops.kernels.gemm_llvm import dot
from deep_interest.ops.kernels.jagged import segment_partition, shared_segment_partition
from deep_interest.ops.runtime.jit import kernel


@kernel
def target_attention_forward(values, queries, offsets, starts, weights, pooled, partition, partitions):
    """Pool the values of each segment once per head.

    Args:
        values: ``(M, D)``.
        queries: ``(B, H, D)``.
        offsets, starts: ``(B + 1,)`` and ``(B,)`` segments of the values.
        weights: OUT ``(H, P)`` softmax weights of the pairs.
        pooled: OUT ``(B, H, D)``.
    """
    first, last = segment_partition(offsets, partition, partitions)
    heads, width = queries.shape[1], queries.shape[2]
    address, stride = values.ctypes.data, values.strides[0]
    for b in range(first, last):
        begin, end, shift = offsets[b], offsets[b + 1], starts[b] - offsets[b]
        for h in range(heads):
            query, own, total = queries[b, h].ctypes.data, weights[h, begin:end], pooled[b, h]
            total[:] = 0
            if begin == end:
                continue
            for i in range(end - begin):
                own[i] = dot(address + (starts[b] + i) * stride, query, width)
            top = own.max()
            for i in range(end - begin):
                own[i] = np.exp(own[i] - top)
            norm = own.sum()
            for i in range(end - begin):
                own[i] /= norm
        for p in range(begin, end):
            row = values[p + shift]
            for h in range(heads):
                total, weight = pooled[b, h], weights[h, p]
                for j in range(width):
                    total[j] += weight * row[j]


@kernel
def target_attention_backward(
    grad_output, values, queries, weights, segments, grad_values, grad_queries, partition, partitions
):
    """Gradients of `target_attention_forward`.

    Args:
        grad_output: ``(B, H, D)``.
        values, queries: as there.
        weights: ``(H, P)`` as it leaves them.
        segments: offsets ``(B + 1,)`` and starts ``(B,)``.
        grad_values: INOUT ``(M, D)``.
        grad_queries: OUT ``(B, H, D)``.
    """
    offsets, starts = segments
    first, last = shared_segment_partition(offsets, starts, partition, partitions)
    heads, width = queries.shape[1], queries.shape[2]
    address, stride = values.ctypes.data, values.strides[0]
    for b in range(first, last):
        begin, end, shift = offsets[b], offsets[b + 1], starts[b] - offsets[b]
        for h in range(heads):
            grad, total = grad_output[b, h], grad_queries[b, h]
            total[:] = 0
            mean = values.dtype.type(0)
            for p in range(begin, end):
                mean += weights[h, p] * dot(address + (p + shift) * stride, grad.ctypes.data, width)
            for p in range(begin, end):
                row, out, weight = values[p + shift], grad_values[p + shift], weights[h, p]
                product = dot(address + (p + shift) * stride, grad.ctypes.data, width)
                grad_score = weight * (product - mean)
                query = queries[b, h]
                for j in range(width):
                    out[j] += weight * grad[j] + grad_score * query[j]
                for j in range(width):
                    total[j] += grad_score * row[j]
