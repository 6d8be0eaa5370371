"""Large arrays on large pages: who looks up rows all over a table finds where they lie, too, in fewer steps."""

import ctypes
import sys

from torch import Tensor

LARGE = 1 << 25  # bytes from which on it pays
_PAGE = 1 << 21
_HUGEPAGE, _COLLAPSE = (
    14,
    25,
)  # of Linux's madvise: for memory yet to be written to, and at once for all (from 6.1 on)


def put_on_large_pages(tensor: Tensor) -> Tensor:
    """Ask Linux to keep a large tensor of the CPU on pages of 2 MB; elsewhere, or where it refuses, nothing happens."""
    if tensor.is_cpu and tensor.nbytes >= LARGE and sys.platform == "linux":
        begin = -(-tensor.data_ptr() // _PAGE) * _PAGE
        size = (tensor.data_ptr() + tensor.nbytes - begin) // _PAGE * _PAGE
        advise = ctypes.CDLL(None).madvise
        for advice in (_HUGEPAGE, _COLLAPSE):
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(size), advice)
    return tensor
