"""Bounds checks: the compiled loops index memory without a check of their own, so what indexes it is checked before them."""

from deep_interest.ops.runtime.jit import kernel


@kernel
def first_out_of_range(codes, size):
    """The position of the first code that is not in ``[0, size)``; -1 if all are. The first loop is vectorised."""
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
    """The position of the first that is smaller than the one before; -1 if there is none."""
    for b in range(1, len(offsets)):
        if offsets[b] < offsets[b - 1]:
            return b
    return -1


@kernel
def first_slice_out_of_range(starts, offsets, rows):
    for b in range(len(starts)):
        length = offsets[b + 1] - offsets[b]
        if length and (starts[b] < 0 or starts[b] > rows - length):
            return b
    return -1
