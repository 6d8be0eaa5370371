"""Parts of memory-mapped arrays: read ahead of their use, and dropped from this process's memory after it."""

import mmap
import sys

import numpy as np


def read_ahead(array: np.ndarray, begin: int, end: int) -> None:
    """Let the system read the rows ``[begin, end)`` of an array in the background, if it is mapped from a file.

    Args:
        array: array with contiguous rows.
        begin: first row.
        end: last row + 1.
    """
    _advise(array, begin, end, "MADV_WILLNEED", outwards=True)


def drop(array: np.ndarray, begin: int, end: int) -> None:
    """Remove the rows ``[begin, end)`` of an array from the memory of this process, if it is mapped from a file.

    They are read again when they are used; the array must not have been changed.

    Args:
        array: array with contiguous rows.
        begin: first row.
        end: last row + 1.
    """
    _advise(array, begin, end, "MADV_DONTNEED", outwards=False)


def _advise(array: np.ndarray, begin: int, end: int, advice: str, *, outwards: bool) -> None:
    mapping, option = _mapping_of(array), getattr(mmap, advice, None)
    if mapping is None or option is None or sys.platform == "win32" or end <= begin:
        return
    start = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    first = array.__array_interface__["data"][0] - start + begin * array.strides[0]
    last = first + (end - begin) * array.strides[0]
    down, up = first // mmap.PAGESIZE * mmap.PAGESIZE, -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    begin_byte = down if outwards else up
    end_byte = min(last, len(mapping)) if outwards else last // mmap.PAGESIZE * mmap.PAGESIZE
    if end_byte > begin_byte:
        mapping.madvise(option, begin_byte, end_byte - begin_byte)


def _mapping_of(array: np.ndarray) -> mmap.mmap | None:
    base = array
    while isinstance(base, np.ndarray):
        base = base.base  # type: ignore[assignment]
    return base if isinstance(base, mmap.mmap) else None
