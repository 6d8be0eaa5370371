"""Partitions of a kernel, run by several threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from numba import njit

from deep_interest.ops.runtime import thread_pool

MIN_PARTITION_WORK = 1 << 18  # numbers to go through for which waking another thread pays


MAX_PARTITIONS = 8  # parts of an operation


_num_threads: int | None = None  # that share the compiled operations; torch's number if None


def partition_count(work: int) -> int:
    """How many parts an operation is done in: by its size alone, so that sums come out the same for any number of threads.

    Args:
        work: numbers that it goes through; about thirty multiplications of a matrix product are one.
    """
    return max(1, min(MAX_PARTITIONS, work // MIN_PARTITION_WORK)) if MIN_PARTITION_WORK else MAX_PARTITIONS


@contextmanager
def threads_for_kernels() -> Iterator[None]:
    """Within, the compiled operations share torch's threads, and torch's own operations have one.

    Waking both kinds of threads in turns costs more than torch's bring, where nearly all of the work is compiled.
    """
    global _num_threads  # noqa: PLW0603
    before = _num_threads, torch.get_num_threads()
    _num_threads = _num_threads or before[1]
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _num_threads = before[0]
        torch.set_num_threads(before[1])


def run_kernel(kernel, *arguments, work: int) -> None:
    """Run ``kernel(*arguments, part, parts)`` for every part; torch's number of threads share them.

    A thread begins with parts of its own, the same ones in every operation, whose rows are near it then; what is left it takes from the others.

    Args:
        kernel: a compiled function whose last two arguments say which share of the rows it takes.
        arguments: the kernel's, without the last two.
        work: numbers that the kernel goes through, see `parts_of`.
    """
    parts = partition_count(work)
    if parts == 1:
        kernel(*arguments, 0, 1)
        return
    threads = min(_num_threads or torch.get_num_threads(), parts)
    left = dict.fromkeys(range(parts), True)

    def take(number: int) -> None:
        own = parts * number // threads
        for part in (*range(own, parts), *range(own)):
            if left.pop(part, False):
                kernel(*arguments, part, parts)

    thread_pool.parallel_for(take, threads - 1)


@njit(inline="always")
def partition_bounds(rows, part, parts):
    """The rows of one part: first and last + 1."""
    return rows * part // parts, rows * (part + 1) // parts
