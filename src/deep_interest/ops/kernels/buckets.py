"""Loops of SDIM: sums of the behaviours that share a bucket with the candidate, in several rounds of hashing.

Shapes: ``values (M, D)``, fingerprints of R rounds with ``bits`` bits each, ``sums (B, R, D)``.
"""

import numpy as np

from deep_interest.ops.kernels.jagged import segment_partition, shared_segment_partition
from deep_interest.ops.runtime.jit import kernel


@kernel
def bucket_sums_forward(values, fingerprints, queries, bits, segments, sums, partition, partitions):
    """Sum, for each segment and round, the values in the bucket of the segment's query.

    Args:
        values: ``(M, D)``.
        fingerprints: ``(M,)`` uint64; round r has the bits ``[r bits, (r + 1) bits)``.
        queries: ``(B,)`` uint64.
        bits: number of bits of a round.
        segments: offsets ``(B + 1,)`` and starts ``(B,)`` of the values.
        sums: OUT ``(B, R, D)``.
    """
    offsets, starts = segments
    first, last = segment_partition(offsets, partition, partitions)
    rounds, width = sums.shape[1], sums.shape[2]
    bucket, step = np.uint64((1 << bits) - 1), np.uint64(bits)
    for b in range(first, last):
        shift, query = starts[b] - offsets[b], queries[b]
        sums[b] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, differing = values[p + shift], fingerprints[p + shift] ^ query
            for r in range(rounds):
                if not differing & bucket:
                    total = sums[b, r]
                    for j in range(width):
                        total[j] += row[j]
                differing >>= step


@kernel
def bucket_sums_backward(
    grad_output, fingerprints, queries, bits, segments, is_shared, grad_values, partition, partitions
):
    """Gradient of `bucket_sums_forward`.

    Args:
        grad_output: ``(B, R, D)``.
        fingerprints, queries, bits, segments: as there.
        is_shared: whether segments may share values; ``grad_values`` is then added to, otherwise assigned.
        grad_values: INOUT ``(M, D)``.
    """
    offsets, starts = segments
    first, last = shared_segment_partition(offsets, starts, partition, partitions)
    rounds, width = grad_output.shape[1], grad_output.shape[2]
    bucket, step = np.uint64((1 << bits) - 1), np.uint64(bits)
    for b in range(first, last):
        shift, query = starts[b] - offsets[b], queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            out, differing = grad_values[p + shift], fingerprints[p + shift] ^ query
            if not is_shared:
                out[:] = 0
            for r in range(rounds):
                if not differing & bucket:
                    grad = grad_output[b, r]
                    for j in range(width):
                        out[j] += grad[j]
                differing >>= step
