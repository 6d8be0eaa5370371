"""Searches for codes, offsets and slices that are out of range."""

from deep_interest.ops.runtime.jit import kernel


@kernel
def first_out_of_range(codes, size):
    """Return the position of the first code outside ``[0, size)``, or -1. The first loop is vectorised."""
    outside = False
    for i in range(len(codes)):
        outside |= (codes[i] < 0) | (codes[i] >= size)
    if outside:
        for i in range(len(codes)):
            if codes[i] < 0 or codes[i] >= size:
                return i
    return -1


@kernel
def first_decrease(offsets):
    """Return the position of the first value that is smaller than its predecessor, or -1."""
    for b in range(1, len(offsets)):
        if offsets[b] < offsets[b - 1]:
            return b
    return -1


@kernel
def first_slice_out_of_range(starts, offsets, rows):
    """Return the first b whose slice of ``offsets[b + 1] - offsets[b]`` rows is out of range, or -1."""
    for b in range(len(starts)):
        length = offsets[b + 1] - offsets[b]
        if length and (starts[b] < 0 or starts[b] > rows - length):
            return b
    return -1
