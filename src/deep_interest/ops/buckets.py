"""Sums of the behaviours that share a hash bucket with the candidate (SDIM, Cao et al. 2022)."""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.buckets import bucket_sums_backward, bucket_sums_forward
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty, empty_rows
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import expand, plain_segment_sum


def bucket_sums(
    values: Tensor, fingerprints: Tensor, queries: Tensor, jagged: Jagged, *, rounds: int, bits: int
) -> Tensor:
    """Sum, in each round of hashing, the values of a segment whose bucket is that of the segment's query.

    Args:
        values: ``(M, D)``.
        fingerprints: ``(M,)`` int64; the bucket of round r is the bits ``[r bits, (r + 1) bits)``.
        queries: ``(B,)`` int64.
        jagged: B segments of the values, or shared segments.
        rounds: number of rounds, R.
        bits: number of bits of a bucket.

    Returns:
        ``(B, R, D)``; 0 where no value is in the bucket.
    """
    if can_use_compiled(values):
        starts = jagged.starts if isinstance(jagged, SharedSegments) else None
        return _BucketSums.apply(values, fingerprints, queries, jagged.offsets, starts, (jagged.total, rounds, bits))
    rows, hashes = expand(values, jagged), fingerprints
    if isinstance(jagged, SharedSegments):
        hashes = fingerprints[jagged.positions]
    differing = hashes ^ queries[jagged.segments]
    bucket = (1 << bits) - 1
    sums = []
    for r in range(rounds):
        is_equal = ((differing >> (r * bits)) & bucket) == 0
        sums.append(plain_segment_sum(rows * is_equal.unsqueeze(1), jagged))
    return torch.stack(sums, dim=1)


class _BucketSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, fingerprints: Tensor, queries: Tensor, offsets: Tensor, starts, sizes) -> Tensor:
        total, rounds, bits = sizes
        ctx.is_shared = starts is not None
        starts = offsets[:-1] if starts is None else starts
        sums = empty(values, len(queries), rounds, values.shape[1])
        run_kernel(
            bucket_sums_forward, *as_arrays(values), *_words(fingerprints, queries), bits, tuple(as_arrays(offsets, starts)),
            *as_arrays(sums), work=total * values.shape[1],
        )  # fmt: skip
        ctx.save_for_backward(fingerprints, queries, offsets, starts)
        ctx.rows, ctx.total, ctx.bits = len(values), total, bits
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        fingerprints, queries, offsets, starts = ctx.saved_tensors
        width = grad_output.shape[2]
        grad_values = empty_rows(ctx.rows, width, grad_output)
        if ctx.is_shared:
            grad_values.zero_()
        run_kernel(
            bucket_sums_backward, *as_arrays(grad_output), *_words(fingerprints, queries), ctx.bits,
            tuple(as_arrays(offsets, starts)), ctx.is_shared, *as_arrays(grad_values), work=ctx.total * width,
        )  # fmt: skip
        return grad_values, None, None, None, None, None


def _words(*fingerprints: Tensor) -> list[np.ndarray]:
    return [array.view(np.uint64) for array in as_arrays(*fingerprints)]
