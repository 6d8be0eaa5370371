"""Loops over one or two vectors, inlined where they are used, and sums over the partitions of a kernel call."""

from numba import njit

from deep_interest.ops.runtime.jit import kernel, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


@njit(inline="always")
def copy(source, out):
    for j in range(len(source)):
        out[j] = source[j]


@njit(inline="always")
def add(source, total):
    for j in range(len(source)):
        total[j] += source[j]


@njit(inline="always")
def subtract(source, total):
    for j in range(len(source)):
        total[j] -= source[j]


@njit_strict
def partition_sums(sums, partition):
    """Return the vector in which a partition accumulates gradients.

    It is zeroed, except for a single partition, which adds to what is there.

    Args:
        sums: INOUT ``(partitions, n)`` one vector for each partition.
        partition: index of the partition.
    """
    own = sums[partition]
    if len(sums) > 1:
        own[:] = 0
    return own


@kernel
def add_partition_sums(sums, total, partition, partitions):
    """``total += Σ_p sums[p]``, in the order of p.

    Args:
        sums: ``(P, n)``.
        total: INOUT ``(n,)``.
    """
    first, last = partition_bounds(len(total), partition, partitions)
    for p in range(len(sums)):
        add(sums[p, first:last], total[first:last])
