"""Loops over slices of the behaviour log."""

import numpy as np

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def find_slices(samples, users, ends, begins, times, offsets, max_len, starts, slice_offsets, owner):
    """Find the newest behaviours before each sample; neighbouring samples with the same user, end and time share a slice.

    Args:
        samples: ``(B,)`` indices of samples.
        users, ends: ``(n,)`` of all samples.
        begins: ``(n,)`` of all samples, or ``(0,)`` for 0.
        times: ``(n,)`` of all samples, or ``(0,)`` if times do not matter.
        offsets: ``(U + 1,)`` segments of the users' behaviours in the log.
        max_len: longest slice.
        starts: OUT ``(B,)``; the first H are filled.
        slice_offsets: OUT ``(B + 1,)``; the first H + 1 are filled.
        owner: OUT ``(B,)``.

    Returns:
        The number of slices H, or -1 - i if sample i is out of range.
    """
    count = slice_offsets[0] = 0
    for i in range(len(samples)):
        if i + PREFETCH_DISTANCE < len(samples):
            prefetch_row(users, samples[i + PREFETCH_DISTANCE])
            prefetch_row(ends, samples[i + PREFETCH_DISTANCE])
        if samples[i] < 0 or samples[i] >= min(len(users), len(ends)):
            return -1 - i
        user, end = users[samples[i]], ends[samples[i]]
        if user < 0 or user >= len(offsets) - 1 or end < 0 or end > offsets[user + 1] - offsets[user]:
            return -1 - i
        shared = i > 0 and user == users[samples[i - 1]] and end == ends[samples[i - 1]]
        begin = begins[samples[i]] if len(begins) else np.int32(0)
        if shared and len(begins):
            shared = begin == begins[samples[i - 1]]
        if shared and len(times):
            shared = times[samples[i]] == times[samples[i - 1]]
        if not shared:
            length = min(max(end - begin, 0), max_len)
            starts[count] = offsets[user] + end - length
            slice_offsets[count + 1] = slice_offsets[count] + length
            count += 1
        owner[i] = count - 1
    return count


@kernel
def copy_slices(codes, starts, offsets, out, partition, partitions):
    """Concatenate slices of a field.

    Args:
        codes: ``(M,)`` the field.
        starts: ``(B,)`` first position of each slice in the field.
        offsets: ``(B + 1,)`` segments of the slices in ``out``.
        out: OUT ``(N,)``.
    """
    first, last = partition_bounds(len(starts), partition, partitions)
    for b in range(first, last):
        if b + PREFETCH_DISTANCE < last:
            prefetch_row(codes, starts[b + PREFETCH_DISTANCE])
        begin, shift = offsets[b], starts[b] - offsets[b]
        for p in range(begin, offsets[b + 1]):
            out[p] = codes[p + shift]
