"""The sum of a run's rows by their weights, and its gradient: the loops that `attention_pool` has beside those of `pair_net`."""

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm_llvm import dot
from deep_interest.ops.runtime.jit import njit_no_refcount, njit_strict


@njit_strict
def pool_segments(values, offsets, starts, first, last, scale, weights, pooled):
    """``pooled[b] = Σ_p weights[p] values[q]`` over the places p of each run, which show the rows q.

    Args:
        values, offsets, starts: the rows, and the runs that show them.
        first, last: which runs, last + 1.
        scale: the weights are the softmax over the run of this times what they were; 0 for what they were.
        weights: ``(N, 1)``, come out as what the rows are multiplied by.
        pooled: ``(B, D)``.
    """
    for b in range(first, last):
        begin, end, shift, total = offsets[b], offsets[b + 1], starts[b] - offsets[b], pooled[b]
        total[:] = 0
        if scale and begin < end:
            _softmax_in_place(weights[begin:end], scale)
        for p in range(begin, end):
            row, weight = values[p + shift], weights[p, 0]
            for j in range(len(total)):
                total[j] += weight * row[j]


@njit_strict
def _softmax_in_place(scores, scale):
    top = scores.max()
    total = scores.dtype.type(0)
    for i in range(len(scores)):
        scores[i, 0] = np.exp(scale * (scores[i, 0] - top))
        total += scores[i, 0]
    for i in range(len(scores)):
        scores[i, 0] /= total


@njit_no_refcount
def pool_segments_backward(
    grad, values, offsets, starts, b, last, end, shown, scale, weights, to_scores, to_values
):
    """Take the gradient ``grad (B, D)`` of `pool_runs` back to the rows and to the scores that the weights were.

    Args:
        grad, values, offsets, starts, scale, weights: as there.
        b, last: which runs, last + 1.
        end: only those that begin before this place.
        shown: rows before this one have been set, and are added to.
        to_scores, to_values: as ``weights`` and ``values``.

    Returns:
        The run after the last one that begins before ``end``, and ``shown`` for that.
    """
    while b < last and offsets[b] < end:
        shift, flow, mean = starts[b] - offsets[b], grad[b], float32(0)
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight = values[p + shift], to_values[p + shift], weights[p, 0]
            product = dot(flow.ctypes.data, row.ctypes.data, len(flow))
            if p + shift < shown:
                for j in range(len(flow)):
                    out[j] += weight * flow[j]
            else:
                for j in range(len(flow)):
                    out[j] = weight * flow[j]
            to_scores[p, 0] = product
            mean += weight * product
        if scale:
            for p in range(offsets[b], offsets[b + 1]):
                to_scores[p, 0] = scale * weights[p, 0] * (to_scores[p, 0] - mean)
        shown = max(shown, offsets[b + 1] + shift)
        b += 1
    return b, shown
