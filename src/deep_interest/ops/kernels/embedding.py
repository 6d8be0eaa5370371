"""Rows of embedding tables side by side, and histories as slices of the log: what a batch is gathered from."""

import numpy as np

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def gather_rows(table, codes, rows, column, part, parts):
    first, last = partition_bounds(len(codes), part, parts)
    width = table.shape[1]
    for i in range(first, last):
        if i + PREFETCH_DISTANCE < last:
            prefetch_row(table, codes[i + PREFETCH_DISTANCE])
        row = table[codes[i]]
        out = rows[i, column : column + width]  # out[column + j] would not be vectorised
        for j in range(width):
            out[j] = row[j]


@kernel
def group_by_row(codes, places, rows, order, starts):
    """Number the different codes in the order in which they come, and sort the entries by them.

    Row e, whose code is ``rows[e]``, has the entries ``order[starts[e] : starts[e + 1]]``, in their order.

    Returns:
        How many rows there are.
    """
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if places[code] < 0:
            places[code] = count
            rows[count] = code
            starts[count + 2] = 0
            count += 1
        starts[places[code] + 2] += 1
    starts[0] = starts[1] = 0
    for e in range(1, count):
        starts[e + 1] += starts[e]
    for i in range(len(codes)):
        after = places[codes[i]] + 1
        order[starts[after]] = i
        starts[after] += 1
    for e in range(count):
        places[rows[e]] = -1
    return count


@kernel
def add_rows(gradient, column, begin, order, starts, sums, part, parts):
    """Add the entries from ``begin`` on, whose gradients these are; a row's first entry is set.

    Each part takes rows of its own, with about as many entries, so that no two threads write one.
    """
    count, width = len(sums), sums.shape[1]
    first, last = partition_bounds(starts[count], part, parts)
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
