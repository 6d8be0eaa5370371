"""Memory of operations: pooled buffers for the temporaries of training steps, and huge pages for large tables.

glibc returns large blocks to the kernel when they are freed, and Linux zeroes every page that it hands out
again: with full histories that took a third of a training step. Raising glibc's threshold would affect the whole
process. So the large arrays of a step come from a pool that belongs to one fit.
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

POOL_MIN_BYTES = 1 << 20  # smallest pooled buffer; glibc itself reuses smaller blocks
HUGE_PAGES_MIN_BYTES = 1 << 25  # smallest tensor for which huge pages pay
_CACHE_LINE_BYTES = 64
_HUGE_PAGE_BYTES = 1 << 21
# Linux's madvise: MADV_HUGEPAGE for pages yet to be touched, MADV_COLLAPSE for those in use (Linux 6.1 and newer)
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25


class BufferPool:
    """Reusable buffers by size; those in use and those free never take more memory than was in use at once.

    A pool belongs to one thread, but any thread may free an array.

    Attributes:
        used: bytes of the buffers in use.
        free: bytes of the buffers that can be reused.
    """

    def __init__(self) -> None:
        self.used = self.free = self._peak = 0
        self._buffers: dict[
            int, list[np.ndarray]
        ] = {}  # free buffers by size, the most recently used size last
        self._returned: deque[np.ndarray] = (
            deque()
        )  # freed since the last call; finalizers append at any time

    def take(self, count: int) -> np.ndarray:
        """Return an uninitialised float32 array ``(count,)``, aligned to a cache line.

        Its buffer returns to the pool when nothing refers to the array any more.
        """
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
    """Let `empty` take large arrays of this thread from a pool while the context is open."""
    outer, _current.pool = _current.pool, pool
    try:
        yield
    finally:
        _current.pool = outer


def empty(like: Tensor, *shape: int) -> Tensor:
    """Return an uninitialised tensor, from the current pool if it is large.

    Args:
        like: tensor with the dtype and the device of the result.
        shape: shape of the result.
    """
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


def empty_rows(rows: int, width: int, like: Tensor) -> Tensor:
    """Return an uninitialised ``(rows, width)``, a slice of a slightly larger tensor.

    Batches of about the same size then get the same buffers step after step, and each thread finds its partition in
    its own cache.
    """
    step = 1 << max(0, rows.bit_length() - 3)
    return empty(like, -(-rows // step) * step, width)[:rows]


def use_huge_pages(tensor: Tensor) -> Tensor:
    """Ask Linux to back a large CPU tensor with pages of 2 MB, so that random rows of a table cost fewer TLB misses.

    Small tensors, other devices, other systems and refusals leave the tensor unchanged.

    Returns:
        ``tensor``.
    """
    if tensor.is_cpu and tensor.nbytes >= HUGE_PAGES_MIN_BYTES and sys.platform == "linux":
        begin = -(-tensor.data_ptr() // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
        size = (tensor.data_ptr() + tensor.nbytes - begin) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
        madvise = ctypes.CDLL(None).madvise
        for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE):
            madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), advice)
    return tensor


def _size_class(size: int) -> int:
    """Round bytes up to one of eight sizes between powers of two: batches of about the same size share buffers."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step
