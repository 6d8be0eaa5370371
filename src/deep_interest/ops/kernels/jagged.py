"""Sums and softmax over the runs of a jagged batch.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
"""

import numpy as np

from deep_interest.ops.runtime.jit import kernel, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def expand_forward(values, offsets, starts, shown, part, parts):
    first, last = segment_partition(offsets, part, parts)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = values[p + shift], shown[p]
            for j in range(len(out)):
                out[j] = row[j]


@kernel
def expand_backward(grad, offsets, starts, to_values, part, parts):
    first, last = shared_segment_partition(offsets, starts, part, parts)
    for b in range(first, last):
        shift = starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out = grad[p], to_values[p + shift]
            for j in range(len(out)):
                out[j] += row[j]


@njit_strict
def segment_partition(offsets, part, parts):
    """The runs of one part, first and last + 1: all parts have about as many places."""
    return _partition_start(offsets, part, parts), _partition_start(offsets, part + 1, parts)


@njit_strict
def _partition_start(offsets, part, parts):
    runs = len(offsets) - 1
    return np.searchsorted(offsets[:runs], offsets[runs] * part // parts) if part < parts else runs


@njit_strict
def shared_segment_partition(offsets, starts, part, parts):
    """As `share_of_runs`, with all those of equal starts in one part, so that no two threads add to one row."""
    first, last = segment_partition(offsets, part, parts)
    return _next_unshared(starts, first), _next_unshared(starts, last)


@njit_strict
def _next_unshared(starts, b):
    while 0 < b < len(starts) and starts[b] == starts[b - 1]:
        b += 1
    return b


@kernel
def segment_sum_forward(values, offsets, sums, part, parts):
    first, last = partition_bounds(len(sums), part, parts)
    for b in range(first, last):
        total = sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row = values[p]
            for j in range(len(total)):
                total[j] += row[j]


@kernel
def segment_repeat_forward(rows, offsets, places, part, parts):
    first, last = partition_bounds(len(rows), part, parts)
    for b in range(first, last):
        for p in range(offsets[b], offsets[b + 1]):
            places[p] = rows[b]


@kernel
def segment_softmax_forward(scores, offsets, weights, part, parts):
    first, last = partition_bounds(len(offsets) - 1, part, parts)
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
def segment_softmax_backward(weights, grad, offsets, to_scores, part, parts):
    first, last = partition_bounds(len(offsets) - 1, part, parts)
    for b in range(first, last):
        mean = grad.dtype.type(0)
        for p in range(offsets[b], offsets[b + 1]):
            mean += weights[p] * grad[p]
        for p in range(offsets[b], offsets[b + 1]):
            to_scores[p] = weights[p] * (grad[p] - mean)


@kernel
def add_two(one, other, total, part, parts):
    first, last = partition_bounds(len(total), part, parts)
    for i in range(first, last):
        a, b, out = one[i], other[i], total[i]
        for j in range(len(out)):
            out[j] = a[j] + b[j]
