"""Feed-forward nets in one pass: a few rows go through all layers while they are in the cache, forward and backward."""

from numba import njit

from deep_interest.ops.runtime.jit import kernel, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def sum_partitions(sums, total, part, parts):
    """The parts' sums, in their order, on top of what is there."""
    first, last = partition_bounds(len(total), part, parts)
    for p in range(len(sums)):
        add(sums[p, first:last], total[first:last])


@njit_strict
def partition_sums(sums, part):
    """Where a part adds up the gradients of a net's numbers: cleared, but for a single part, which adds to what is there."""
    own = sums[part]
    if len(sums) > 1:
        own[:] = 0
    return own


@njit(inline="always")
def copy(given, out):
    for j in range(len(given)):
        out[j] = given[j]


@njit(inline="always")
def add(given, total):
    for j in range(len(given)):
        total[j] += given[j]


@njit(inline="always")
def subtract(given, total):
    for j in range(len(given)):
        total[j] -= given[j]
