"""The sum of each segment's behaviours by their weights, and its gradients."""

from typing import NamedTuple

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm_llvm import dot
from deep_interest.ops.runtime.jit import njit_no_refcount, njit_strict


class PoolGrad(NamedTuple):
    """What the backward pass of `pool_segments` starts from.

    Attributes:
        grad_output: ``(B, D)``.
        scale: scale of the softmax; 0 for none.
        weights: ``(N, 1)`` as `pool_segments` leaves them.
    """

    grad_output: np.ndarray
    scale: np.float32
    weights: np.ndarray


@njit_strict
def pool_segments(pairs, first, last, scale, weights, pooled):
    """``pooled[b] = Σ_p weights[p] · e_p`` over the pairs p of each segment.

    Args:
        pairs: `pair_layer.Pairs`.
        first, last: first segment, and the first after the last.
        scale: the weights are the softmax within the segment of this times the scores; 0 for the scores themselves.
        weights: INOUT ``(N, 1)``, the scores and then the weights.
        pooled: OUT ``(B, D)``.
    """
    values, _, offsets, starts = pairs
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
def pool_segments_backward(pool, pairs, b, last, end, initialized, grad_scores, grad_values):
    """Compute the gradients of `pool_segments` for the segments from b on that begin before pair ``end``.

    Args:
        pool: `PoolGrad`.
        pairs: as there.
        b, last: first segment, and the first after the last.
        end: pair before which the segments begin.
        initialized: rows of ``grad_values`` before this one are added to, the others assigned.
        grad_scores: OUT ``(N, 1)``.
        grad_values: INOUT ``(M, D)``.

    Returns:
        The first segment that begins at ``end`` or later, and ``initialized`` for it.
    """
    values, _, offsets, starts = pairs
    grad_output, scale, weights = pool
    while b < last and offsets[b] < end:
        shift, grad, mean = starts[b] - offsets[b], grad_output[b], float32(0)
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight = values[p + shift], grad_values[p + shift], weights[p, 0]
            product = dot(grad.ctypes.data, row.ctypes.data, len(grad))
            if p + shift < initialized:
                for j in range(len(grad)):
                    out[j] += weight * grad[j]
            else:
                for j in range(len(grad)):
                    out[j] = weight * grad[j]
            grad_scores[p, 0] = product
            mean += weight * product
        if scale:
            for p in range(offsets[b], offsets[b + 1]):
                grad_scores[p, 0] = scale * weights[p, 0] * (grad_scores[p, 0] - mean)
        initialized = max(initialized, offsets[b + 1] + shift)
        b += 1
    return b, initialized
