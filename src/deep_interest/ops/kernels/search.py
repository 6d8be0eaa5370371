"""Loops that search long histories: scores of behaviours for a candidate, and the behaviours that a model keeps.

Shapes: N behaviours, B segments of them, P pairs of a segment and one of its behaviours; behaviour ``p - offsets[b] +
starts[b]`` belongs to pair p of segment b.
"""

import numpy as np
from numpy import float32

from deep_interest.ops.kernels.gemm_llvm import dot
from deep_interest.ops.kernels.jagged import segment_partition
from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def find_newest(codes, targets, offsets, starts, newest, counts, partition, partitions):
    """Find the newest behaviours of each segment whose code is the segment's target; code 0, the unknown, matches nothing.

    Args:
        codes: ``(N,)``.
        targets: ``(B,)``.
        offsets, starts: ``(B + 1,)`` and ``(B,)`` segments of the behaviours.
        newest: OUT ``(B, K)`` behaviours, ascending; the last ``counts[b]`` are filled.
        counts: OUT ``(B,)``.
    """
    first, last = segment_partition(offsets, partition, partitions)
    most = newest.shape[1]
    for b in range(first, last):
        target, count, begin = targets[b], 0, starts[b]
        n = begin + offsets[b + 1] - offsets[b] - 1
        while n >= begin and count < most and target:
            if codes[n] == target:
                count += 1
                newest[b, most - count] = n
            n -= 1
        counts[b] = count


@kernel
def add_dot_scores(table, codes, queries, column, offsets, starts, assign, scores, partition, partitions):
    """Add the dot product of a field's embedding with some columns of the segment's query to the score of each pair.

    A segment with more behaviours than the table has rows computes the product of each row once.

    Args:
        table: ``(R, D)``.
        codes: ``(N,)`` row of each behaviour.
        queries: ``(B, W)``, of which the columns ``[column, column + D)`` belong to the field.
        column: first column.
        offsets, starts: ``(B + 1,)`` and ``(B,)`` segments of the behaviours.
        assign: whether to assign instead of adding.
        scores: INOUT ``(P,)``.
    """
    first, last = segment_partition(offsets, partition, partitions)
    rows, width = table.shape
    address, stride = table.ctypes.data, table.strides[0]
    products = np.empty(rows if rows < len(codes) else 0, float32)
    for b in range(first, last):
        begin, end, shift = offsets[b], offsets[b + 1], starts[b] - offsets[b]
        query = queries.ctypes.data + b * queries.strides[0] + 4 * column
        if rows < end - begin:
            for r in range(rows):
                products[r] = dot(address + r * stride, query, width)
            for p in range(begin, end):
                scores[p] = products[codes[p + shift]] + (float32(0) if assign else scores[p])
            continue
        for p in range(begin, end):
            if p + PREFETCH_DISTANCE < end:
                prefetch_row(table, codes[p + PREFETCH_DISTANCE + shift])
            product = dot(address + np.int64(codes[p + shift]) * stride, query, width)
            scores[p] = product + (float32(0) if assign else scores[p])


@kernel
def hamming_scores(fingerprints, queries, offsets, starts, scores, partition, partitions):
    """Negative number of bits in which the fingerprints of behaviour and query differ.

    Args:
        fingerprints: ``(N,)`` uint64.
        queries: ``(B,)`` uint64.
        offsets, starts: ``(B + 1,)`` and ``(B,)`` segments of the behaviours.
        scores: OUT ``(P,)``.
    """
    first, last = segment_partition(offsets, partition, partitions)
    for b in range(first, last):
        query, shift = queries[b], starts[b] - offsets[b]
        for p in range(offsets[b], offsets[b + 1]):
            scores[p] = -float32(_bit_count(fingerprints[p + shift] ^ query))


@njit_strict
def _bit_count(x):
    """Return the number of bits that are 1 in a uint64, by sums of neighbouring groups of bits."""
    pairs, nibbles, octets = (
        np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
    )  # fmt: skip
    x = x - ((x >> np.uint64(1)) & pairs)
    x = (x & nibbles) + ((x >> np.uint64(2)) & nibbles)
    x = (x + (x >> np.uint64(4))) & octets
    x = x + (x >> np.uint64(8))
    x = x + (x >> np.uint64(16))
    x = x + (x >> np.uint64(32))
    return x & np.uint64(0x7F)


@kernel
def select_top(scores, offsets, starts, count, out_offsets, positions, partition, partitions):
    """Select the behaviours with the highest scores in each segment; of equal scores, the newest.

    Args:
        scores: ``(P,)``.
        offsets, starts: ``(B + 1,)`` and ``(B,)`` segments of the behaviours.
        count: most behaviours of a segment, K.
        out_offsets: ``(B + 1,)`` segments of ``positions``, of ``min(K, length)`` each.
        positions: OUT ``(S,)`` behaviours, ascending within a segment.
    """
    first, last = segment_partition(offsets, partition, partitions)
    kept, where = np.empty(2 * count, float32), np.empty(2 * count, np.int64)
    for b in range(first, last):
        begin, end, shift, out = offsets[b], offsets[b + 1], starts[b] - offsets[b], out_offsets[b]
        if end - begin <= count:
            for p in range(begin, end):
                positions[out + p - begin] = p + shift
            continue
        size, is_full, threshold = 0, False, float32(0)
        for p in range(end - 1, begin - 1, -1):
            if is_full and not scores[p] > threshold:
                continue
            kept[size], where[size] = scores[p], p + shift
            size += 1
            if size == 2 * count:
                _keep_top(kept, where, count)
                size, is_full, threshold = count, True, kept[count - 1]
        _keep_top(kept[:size], where[:size], count)
        positions[out : out + count] = np.sort(where[:count])


@njit_strict
def _keep_top(scores, where, count):
    """Move the ``count`` highest scores to the front, in descending order; of equal scores the first.

    Args:
        scores: INOUT ``(n,)``.
        where: INOUT ``(n,)`` what belongs to the scores.
        count: at most n.
    """
    order = np.argsort(-scores, kind="mergesort")[:count]
    scores[:count], where[:count] = scores[order], where[order]


@kernel
def pack_signs(products, codes, fingerprints, partition, partitions):
    """Pack the signs of ``Σ_f products[codes[f, n], k]`` into the bits k of a fingerprint.

    Args:
        products: ``(R, m)`` products of the rows of all tables with the m planes.
        codes: ``(F, N)`` row of each behaviour's field.
        fingerprints: OUT ``(N,)`` uint64.
    """
    first, last = partition_bounds(len(fingerprints), partition, partitions)
    planes = products.shape[1]
    total = np.empty(planes, float32)
    for n in range(first, last):
        if n + PREFETCH_DISTANCE < last:
            prefetch_row(products, codes[0, n + PREFETCH_DISTANCE])
        row = products[codes[0, n]]
        for k in range(planes):
            total[k] = row[k]
        for f in range(1, len(codes)):
            row = products[codes[f, n]]
            for k in range(planes):
                total[k] += row[k]
        fingerprint = np.uint64(0)
        for k in range(planes):
            fingerprint |= np.uint64(total[k] > 0) << np.uint64(k)
        fingerprints[n] = fingerprint
