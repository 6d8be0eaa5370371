"""Loops over the segments of a jagged batch: sum, softmax, repeat, expand.

Shapes: ``values (N, D)``; segment b is ``values[offsets[b] : offsets[b + 1]]`` and may be empty; ``starts (B,)``
only for shared segments, where segment b is ``values[starts[b] : starts[b] + offsets[b + 1] - offsets[b]]``.
"""

import numpy as np

from deep_interest.ops.runtime.jit import kernel, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def segment_sum_forward(values, offsets, sums, partition, partitions):
    """Sum of each segment; OUT ``sums (B, D)``."""
    first, last = partition_bounds(len(sums), partition, partitions)
    for b in range(first, last):
        total = sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row = values[p]
            for j in range(len(total)):
                total[j] += row[j]


@kernel
def segment_repeat_forward(rows, offsets, out, partition, partitions):
    """Row b of ``rows (B, D)`` for every value of segment b; OUT ``out (N, D)``."""
    first, last = partition_bounds(len(rows), partition, partitions)
    for b in range(first, last):
        for p in range(offsets[b], offsets[b + 1]):
            out[p] = rows[b]


@kernel
def segment_softmax_forward(scores, offsets, weights, partition, partitions):
    """Softmax of ``scores (N,)`` within each segment; OUT ``weights (N,)``."""
    first, last = partition_bounds(len(offsets) - 1, partition, partitions)
    for b in range(first, last):
        begin, end = offsets[b], offsets[b + 1]
        if begin == end:
            continue
        top = scores[begin:end].max()
        total = scores.dtype.type(0)
        for p in range(begin, end):
            weights[p] = np.exp(scores[p] - top)
        for p in range(begin, end):
            total += weights[p]
        for p in range(begin, end):
            weights[p] /= total


@kernel
def segment_softmax_backward(weights, grad_output, offsets, grad_scores, partition, partitions):
    """Gradient of `segment_softmax_forward`; OUT ``grad_scores (N,)``."""
    first, last = partition_bounds(len(offsets) - 1, partition, partitions)
    for b in range(first, last):
        mean = grad_output.dtype.type(0)
        for p in range(offsets[b], offsets[b + 1]):
            mean += weights[p] * grad_output[p]
        for p in range(offsets[b], offsets[b + 1]):
            grad_scores[p] = weights[p] * (grad_output[p] - mean)


@kernel
def expand_forward(values, offsets, starts, gathered, partition, partitions):
    """Copy ``values (M, D)`` of shared segments; OUT ``gathered (N, D)``."""
    first, last = segment_partition(offsets, partition, partitions)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = values[p + shift], gathered[p]
            for j in range(len(out)):
                out[j] = row[j]


@kernel
def expand_backward(grad_output, offsets, starts, grad_values, partition, partitions):
    """Gradient of `expand_forward`; INOUT ``grad_values (M, D)``."""
    first, last = shared_segment_partition(offsets, starts, partition, partitions)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = grad_output[p], grad_values[p + shift]
            for j in range(len(out)):
                out[j] += row[j]


@njit_strict
def segment_partition(offsets, partition, partitions):
    """Return the first segment of a partition and the first after it; partitions have about as many values."""
    return _first_segment(offsets, partition, partitions), _first_segment(offsets, partition + 1, partitions)


@njit_strict
def _first_segment(offsets, partition, partitions):
    segments = len(offsets) - 1
    if partition == partitions:
        return segments
    return np.searchsorted(offsets[:segments], offsets[segments] * partition // partitions)


@njit_strict
def shared_segment_partition(offsets, starts, partition, partitions):
    """As `segment_partition`, with segments of equal starts in one partition: no two threads add to the same row."""
    first, last = segment_partition(offsets, partition, partitions)
    return _next_unshared(starts, first), _next_unshared(starts, last)


@njit_strict
def _next_unshared(starts, b):
    while 0 < b < len(starts) and starts[b] == starts[b - 1]:
        b += 1
    return b
