"""Rows of embedding tables side by side, and histories as slices of the log: what a batch is gathered from."""

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def newest_slices(rows, users, ends, offsets, max_len, starts, slices, owner):
    """Fills what it is given; returns how many slices there are, or -1 - i where sample i is out of range."""
    found = slices[0] = 0
    for i in range(len(rows)):
        if i + PREFETCH_DISTANCE < len(rows):
            prefetch_row(users, rows[i + PREFETCH_DISTANCE])
            prefetch_row(ends, rows[i + PREFETCH_DISTANCE])
        if rows[i] < 0 or rows[i] >= min(len(users), len(ends)):
            return -1 - i
        user, end = users[rows[i]], ends[rows[i]]
        if user < 0 or user >= len(offsets) - 1 or end < 0 or end > offsets[user + 1] - offsets[user]:
            return -1 - i
        if i == 0 or user != users[rows[i - 1]] or end != ends[rows[i - 1]]:
            length = min(end, max_len)
            starts[found] = offsets[user] + end - length
            slices[found + 1] = slices[found] + length
            found += 1
        owner[i] = found - 1
    return found


@kernel
def copy_slices(codes, starts, offsets, slices, part, parts):
    first, last = partition_bounds(len(starts), part, parts)
    for b in range(first, last):
        if b + PREFETCH_DISTANCE < last:
            prefetch_row(codes, starts[b + PREFETCH_DISTANCE])
        begin, shift = offsets[b], starts[b] - offsets[b]
        for p in range(begin, offsets[b + 1]):
            slices[p] = codes[p + shift]
