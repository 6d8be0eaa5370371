"""Scratch buffers of training steps, kept from one step for the next.

The C library gives large blocks back to the system as soon as they are freed, and the system clears every page that it hands out
again: with full histories that took a third of a step. Telling the C library to keep everything would concern the whole process,
whatever else it computes. So the large arrays of a step come from a pool that belongs to one fit.
"""

import ctypes
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def empty_rows(rows: int, width: int, like: Tensor) -> Tensor:
    """An empty ``(rows, width)`` of the kind of ``like``.

    The memory is a little more, so that batches of about the same size are given the same memory, step after step: each thread finds its
    part of it in its own cache, and need not fetch what another one wrote there.
    """
    step = 1 << max(0, rows.bit_length() - 3)
    return empty(like, -(-rows // step) * step, width)[:rows]


HUGE_PAGES_MIN_BYTES = 1 << 25  # bytes from which on it pays


_HUGE_PAGE_BYTES = 1 << 21


_MADV_HUGEPAGE, _MADV_COLLAPSE = (
    14,
    25,
)  # of Linux's madvise: for memory yet to be written to, and at once for all (from 6.1 on)


def use_huge_pages(tensor: Tensor) -> Tensor:
    """Ask Linux to keep a large tensor of the CPU on pages of 2 MB; elsewhere, or where it refuses, nothing happens."""
    if tensor.is_cpu and tensor.nbytes >= HUGE_PAGES_MIN_BYTES and sys.platform == "linux":
        begin = -(-tensor.data_ptr() // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
        size = (tensor.data_ptr() + tensor.nbytes - begin) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
        advise = ctypes.CDLL(None).madvise
        for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE):
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(size), advice)
    return tensor


POOL_MIN_BYTES = 1 << 20  # bytes from which on a buffer is pooled; the C library itself reuses smaller blocks


_CACHE_LINE_BYTES = 64  # bytes of a cache line, on which arrays begin


class BufferPool:
    """Buffers by size; used and free ones together take no more memory than was in use at once.

    A pool belongs to one thread, but any thread may free an array.

    Attributes:
        used, free: bytes of the buffers in use, and of those that wait to be used again.
    """

    def __init__(self) -> None:
        self.used = self.free = self._peak = 0
        self._buffers: dict[
            int, list[np.ndarray]
        ] = {}  # the free ones by size, the size that was used last at the end
        self._returned: deque[np.ndarray] = (
            deque()
        )  # freed since the last call; finalizers append at any time

    def take(self, count: int) -> np.ndarray:
        """``(count,)`` float32, not initialised; its buffer is free again when nothing refers to the array."""
        self._collect()
        size = _size_class(4 * count)
        buffer = self._pop(size) if size in self._buffers else np.empty(size + _CACHE_LINE_BYTES, np.uint8)
        self.used += size
        self._peak = max(self._peak, self.used)
        while self.used + self.free > self._peak:
            self._pop(next(iter(self._buffers)))
        begin = -buffer.ctypes.data % _CACHE_LINE_BYTES
        array = buffer[begin : begin + 4 * count].view(np.float32)
        weakref.finalize(array, self._returned.append, buffer).atexit = False
        return array

    def _collect(self) -> None:
        while self._returned:
            buffer = self._returned.popleft()
            size = len(buffer) - _CACHE_LINE_BYTES
            self._buffers[size] = [*self._buffers.pop(size, ()), buffer]
            self.used, self.free = self.used - size, self.free + size

    def _pop(self, size: int) -> np.ndarray:
        *others, buffer = self._buffers.pop(size)
        if others:
            self._buffers[size] = others
        self.free -= size
        return buffer


class _Current(threading.local):
    pool: BufferPool | None = None


_current = _Current()


@contextmanager
def use_pool(pool: BufferPool) -> Iterator[None]:
    """Within, `empty` takes large arrays of this thread from a pool."""
    before, _current.pool = _current.pool, pool
    try:
        yield
    finally:
        _current.pool = before


def empty(like: Tensor, *shape: int) -> Tensor:
    """As ``like.new_empty(*shape)``; from the pool, if there is one and the array is large."""
    pool = _current.pool
    if pool is None or not like.is_cpu or like.dtype != torch.float32:
        return like.new_empty(shape)
    count = 1
    for length in shape:
        count *= int(length)
    return (
        torch.from_numpy(pool.take(count)).view(shape)
        if 4 * count >= POOL_MIN_BYTES
        else like.new_empty(shape)
    )


def _size_class(size: int) -> int:
    """A size class, one of eight between powers of two: batches of about the same size take the same buffers."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step
