"""Loops of the embedding lookup, and of the sum of its row-sparse gradients."""

import numpy as np

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def gather_rows(table, codes, out, column, partition, partitions):
    """Copy rows of a table to some columns.

    Args:
        table: ``(R, D)``.
        codes: ``(n,)`` row indices.
        out: OUT ``(n, W)``; columns ``[column, column + D)`` are written.
        column: first column.
    """
    first, last = partition_bounds(len(codes), partition, partitions)
    width = table.shape[1]
    for i in range(first, last):
        if i + PREFETCH_DISTANCE < last:
            prefetch_row(table, codes[i + PREFETCH_DISTANCE])
        row = table[codes[i]]
        target = out[i, column : column + width]  # out[i, column + j] would not be vectorised
        for j in range(width):
            target[j] = row[j]


@kernel
def group_by_row(codes, slots, rows, order, starts):
    """Number the different codes by their first occurrence, and sort the entries by that number (counting sort).

    Row ``rows[e]`` has the entries ``order[starts[e] : starts[e + 1]]``, in their original order.

    Args:
        codes: ``(n,)`` row indices with repetitions.
        slots: INOUT ``(R,)`` scratch buffer, -1 everywhere before and after.
        rows: OUT ``(n,)``; the first k are filled.
        order: OUT ``(n,)``.
        starts: OUT ``(n + 2,)``; the first k + 1 are filled.

    Returns:
        The number of different codes k.
    """
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if slots[code] < 0:
            slots[code] = count
            rows[count] = code
            starts[count + 2] = 0
            count += 1
        starts[slots[code] + 2] += 1
    starts[0] = starts[1] = 0
    for e in range(1, count):
        starts[e + 1] += starts[e]
    for i in range(len(codes)):
        after = slots[codes[i]] + 1
        order[starts[after]] = i
        starts[after] += 1
    for e in range(count):
        slots[rows[e]] = -1
    return count


@kernel
def add_grouped_rows(gradient, column, begin, order, starts, sums, partition, partitions):
    """Add one part of the entries of `group_by_row` to the sums of their rows; a row's first entry is assigned.

    Every partition has rows of its own, with about as many entries, so that no two threads write to the same row.

    Args:
        gradient: ``(m, W)`` gradients of the entries ``[begin, begin + m)``.
        column: first of the D columns that belong to the table.
        begin: first entry.
        order, starts: as `group_by_row` leaves them.
        sums: INOUT ``(k, D)``.
    """
    count, width = len(sums), sums.shape[1]
    first, last = partition_bounds(starts[count], partition, partitions)
    e = np.searchsorted(starts[: count + 1], first)
    while e < count and starts[e] < last:
        total = sums[e]
        for k in range(starts[e], starts[e + 1]):
            if k + PREFETCH_DISTANCE < last and begin <= order[k + PREFETCH_DISTANCE] < begin + len(gradient):
                prefetch_row(gradient, order[k + PREFETCH_DISTANCE] - begin)
            i = order[k] - begin
            if i < 0 or i >= len(gradient):
                continue
            row = gradient[i, column : column + width]
            if k == starts[e]:
                for j in range(width):
                    total[j] = row[j]
            else:
                for j in range(width):
                    total[j] += row[j]
        e += 1
