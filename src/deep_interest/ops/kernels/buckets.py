"""Loops of SDIM: sums of the behaviours that share a bucket with the candidate, in several rounds of hashing.

Shapes: ``values (U, D)``, of which behaviour n of N has the row ``index[n]``; fingerprints of R rounds with ``bits`` bits each;
``sums (B, R, D)``.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types

from deep_interest.ops.kernels.jagged import segment_partition
from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import intrinsic, kernel, njit_no_refcount
from deep_interest.ops.runtime.parallel import MAX_PARTITIONS, partition_bounds

RESIDUES = MAX_PARTITIONS  # of row numbers, by which partitions share the rows; a power of two


@kernel
def bucket_sums_forward(values, index, fingerprints, queries, hashing, segments, sums, partition, partitions):
    """Sum, for each segment and round, the values in the bucket of the segment's query.

    Args:
        values: ``(U, D)``.
        index: ``(N,)`` row of each behaviour.
        fingerprints: ``(N,)`` uint64; round r has the bits ``[r bits, (r + 1) bits)``.
        queries: ``(B,)`` uint64.
        hashing: bits of a round, and a word with the first bit of every round set.
        segments: offsets ``(B + 1,)`` and starts ``(B,)`` of the behaviours.
        sums: OUT ``(B, R, D)``.
    """
    offsets, starts = segments
    first, last = segment_partition(offsets, partition, partitions)
    for b in range(first, last):
        sums[b] = 0
        begin, end = starts[b], starts[b] + offsets[b + 1] - offsets[b]
        _add_values(values, index, fingerprints, queries[b], hashing, (begin, end), sums[b])


@njit_no_refcount
def _add_values(values, index, fingerprints, query, hashing, bounds, sums):
    """Add the values ``[bounds[0], bounds[1])`` of a segment to the sums ``(R, D)`` of the rounds whose bucket they share."""
    bits, firsts = hashing
    begin, end = bounds
    width, factor = sums.shape[1], _reciprocal(bits)
    for n in range(begin, end):
        if n + PREFETCH_DISTANCE < end:
            prefetch_row(values, index[n + PREFETCH_DISTANCE])
        equal, row = _equal_rounds(fingerprints[n] ^ query, bits, firsts), values[index[n]]
        while equal:
            total = sums[_round_of(equal, factor)]
            for j in range(width):
                total[j] += row[j]
            equal &= equal - np.uint64(1)


@kernel
def group_by_residue(index, order, groups):
    """Sort behaviours by the residue of their row modulo `RESIDUES`; the order within a residue is kept.

    Args:
        index: ``(N,)`` row of each behaviour.
        order: OUT ``(N,)`` behaviours.
        groups: OUT ``(RESIDUES + 2,)``; residue r has ``order[groups[r] : groups[r + 1]]``.
    """
    groups[:] = 0
    for n in range(len(index)):
        groups[(index[n] & (RESIDUES - 1)) + 2] += 1
    for r in range(2, RESIDUES + 2):
        groups[r] += groups[r - 1]
    for n in range(len(index)):
        after = (index[n] & (RESIDUES - 1)) + 1
        order[groups[after]] = n
        groups[after] += 1


@kernel
def bucket_sums_backward(
    grad_output, grouped, fingerprints, queries, hashing, segments, grad_values, partition, partitions
):
    """Gradient of `bucket_sums_forward`.

    Every partition has rows of its own, so that no two threads write to the same row.

    Args:
        grad_output: ``(B, R, D)``.
        grouped: index ``(N,)`` as there, and order and groups of `group_by_residue`.
        fingerprints, queries, hashing, segments: as there.
        grad_values: OUT ``(U, D)``.
    """
    offsets, starts = segments
    index, order, groups = grouped
    first, last = partition_bounds(RESIDUES, partition, partitions)
    for residue in range(first, last):
        for row in range(residue, len(grad_values), RESIDUES):
            grad_values[row] = 0
        own = order[groups[residue] : groups[residue + 1]]
        for b in range(len(queries)):
            begin, end = starts[b], starts[b] + offsets[b + 1] - offsets[b]
            if begin < end:
                behaviors = own[np.searchsorted(own, begin) : np.searchsorted(own, end)]
                _add_grads(grad_output[b], behaviors, index, fingerprints, queries[b], hashing, grad_values)


@njit_no_refcount
def _add_grads(grad_sums, behaviors, index, fingerprints, query, hashing, grad_values):
    """Add the gradients ``(R, D)`` of a segment's sums to the rows of some of its behaviours."""
    bits, firsts = hashing
    width, factor = grad_sums.shape[1], _reciprocal(bits)
    for i in range(len(behaviors)):
        if i + PREFETCH_DISTANCE < len(behaviors):
            prefetch_row(grad_values, index[behaviors[i + PREFETCH_DISTANCE]])
        n = behaviors[i]
        equal, out = _equal_rounds(fingerprints[n] ^ query, bits, firsts), grad_values[index[n]]
        while equal:
            grad = grad_sums[_round_of(equal, factor)]
            for j in range(width):
                out[j] += grad[j]
            equal &= equal - np.uint64(1)


@njit(inline="always")
def _equal_rounds(differing, bits, firsts):
    """Return a word whose first bit of every round without a differing bit is 1."""
    some = differing
    for k in range(1, bits):
        some |= differing >> np.uint64(k)
    return ~some & firsts


@njit(inline="always")
def _reciprocal(bits):
    """Return a factor with which `_round_of` divides a position below 64 by ``bits``: a division would take longer than adding a row."""
    return (4096 + bits - 1) // bits


@njit(inline="always")
def _round_of(equal, factor):
    """Return the round of the lowest bit of a word that is 1."""
    return (_trailing_zeros(equal) * factor) >> 12


def _python_trailing_zeros(word):
    return (int(word) & -int(word)).bit_length() - 1


@intrinsic(_python_trailing_zeros)
def _trailing_zeros(typing, word):
    """Return the position of the lowest bit of a uint64 that is 1; there must be one."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@kernel
def number_codes(codes, slots, rows, index):
    """Number the different codes by their first occurrence.

    Args:
        codes: ``(n,)``.
        slots: INOUT ``(R,)`` -1 everywhere before.
        rows: OUT ``(n,)`` the different codes; the first k are filled.
        index: OUT ``(n,)`` number of each code.

    Returns:
        The number of different codes k.
    """
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if slots[code] < 0:
            slots[code] = count
            rows[count] = code
            count += 1
        index[i] = slots[code]
    return count
