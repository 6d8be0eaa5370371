"""Kernels run in partitions by several threads.

The partitions depend on the size of the work, never on the number of threads. So sums over partitions have the same
bits for any number of threads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from numba import njit

from deep_interest.ops.runtime import thread_pool

MIN_PARTITION_WORK = (
    1 << 18
)  # work (see `partition_count`) of a partition for which waking another thread pays
MAX_PARTITIONS = 8  # of one kernel call

_num_threads: int | None = None  # threads that run kernels; torch's number if None


def partition_count(work: int) -> int:
    """Return into how many partitions a kernel call is divided, by its size alone.

    Args:
        work: values that the kernel reads or writes; about thirty multiply-adds of a matrix product count as one.
    """
    return max(1, min(MAX_PARTITIONS, work // MIN_PARTITION_WORK)) if MIN_PARTITION_WORK else MAX_PARTITIONS


@contextmanager
def threads_for_kernels() -> Iterator[None]:
    """Give torch's threads to the kernels and one thread to torch's own operations while the context is open.

    Waking both kinds of threads in turn costs more than torch's threads gain where nearly all of the work is compiled.
    """
    global _num_threads  # noqa: PLW0603
    outer = _num_threads, torch.get_num_threads()
    _num_threads = _num_threads or outer[1]
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _num_threads = outer[0]
        torch.set_num_threads(outer[1])


def set_kernel_threads(threads: int | None) -> None:
    """Set how many threads a kernel uses from now on, in the whole process; torch's number if None."""
    global _num_threads  # noqa: PLW0603
    _num_threads = threads


def run_kernel(kernel: Callable, *arguments, work: int) -> None:
    """Call ``kernel(*arguments, partition, partitions)`` for every partition, on as many threads as torch uses.

    Each thread begins with the same partitions in every call, whose rows may still be in its cache, then takes what
    remains.

    Args:
        kernel: compiled function; its last two arguments are the index of a partition and the number of partitions.
        arguments: arguments of the kernel without the last two.
        work: work of the call, see `partition_count`.
    """
    partitions = partition_count(work)
    if partitions == 1:
        kernel(*arguments, 0, 1)
        return
    threads = min(_num_threads or torch.get_num_threads(), partitions)
    remaining = dict.fromkeys(range(partitions), True)

    def take(thread: int) -> None:
        own = partitions * thread // threads
        for partition in (*range(own, partitions), *range(own)):
            if remaining.pop(partition, False):
                kernel(*arguments, partition, partitions)

    thread_pool.parallel_for(take, threads - 1)


@njit(inline="always")
def partition_bounds(rows, partition, partitions):
    """Return the first row of a partition, and the first after it."""
    return rows * partition // partitions, rows * (partition + 1) // partitions
