"""The micro-kernels of `gemm_llvm` in NumPy: they take their place with ``NUMBA_DISABLE_JIT=1``, for stepping through a kernel.

As those, they take addresses and distances in bytes, of float32 numbers.
"""

import ctypes
from collections.abc import Callable

import numpy as np

NR = 16  # columns of a panel, as in `gemm_llvm`


def array_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: type = np.float32
) -> np.ndarray:
    """The array at an address; it does not own its memory.

    Args:
        address: address of the first element.
        shape, strides: as of a NumPy array, with strides in bytes that are not negative.
        dtype: type of the elements.
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    size = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * (size + np.dtype(dtype).itemsize)).from_address(int(address))
    return np.ndarray(shape, dtype, buffer=memory, strides=strides)


def micro_kernel(scaling: str | None) -> Callable:
    """As `gemm_llvm.micro_kernel`.

    Args:
        scaling: what the factors multiply in the second matrix: its ``rows`` or its ``columns``; None without a second matrix.
    """

    def multiply(
        rows, columns, a, a_row, a_step, b, more, line, panel, factors, inner, start, start_row, c, c_row
    ):  # fmt: skip
        right = _panels(b, columns, inner, line, panel)
        if scaling is not None:
            count = inner if scaling == "rows" else columns
            scales = array_at(factors, (count,), (4,))
            right = right + (scales[:, None] if scaling == "rows" else scales) * _panels(
                more, columns, inner, line, panel
            )
        first = array_at(start, (rows, columns), (start_row, 4)).copy()
        array_at(c, (rows, columns), (c_row, 4))[:] = (
            first + array_at(a, (rows, inner), (a_row, a_step)) @ right
        )

    return multiply


def segment_micro_kernel(rows, a, a_step, e, segments, count, v, to_v, weight, single, product):
    """As `gemm_llvm.segment_micro_kernel`."""
    weights, singles, products = (array_at(at, (rows, NR), (4 * NR, 4)) for at in (weight, single, product))
    bounds = array_at(segments, (count, 2), (24, 8), np.int64)
    queries, to_queries = (array_at(at, (count, NR), (4 * NR, 4)) for at in (v, to_v))
    for s, (begin, end) in enumerate(bounds):
        left = array_at(a + int(begin) * a_step, (int(end - begin), rows), (a_step, 4))
        right = array_at(e + int(begin) * 4 * NR, (int(end - begin), NR), (4 * NR, 4))
        outer = left.T @ right
        singles += outer
        products += outer * queries[s]
        to_queries[s] += (weights * outer).sum(0)


def dot(a, b, count):
    """As `gemm_llvm.dot`."""
    return array_at(a, (count,), (4,)) @ array_at(b, (count,), (4,))


def _panels(address: int, columns: int, inner: int, line: int, panel: int) -> np.ndarray:
    """The first columns of a matrix that is packed in panels. Shape: ``(inner, columns)``."""
    panels = [
        array_at(address + j * panel, (inner, min(NR, columns - NR * j)), (line, 4))
        for j in range(-(-columns // NR))
    ]
    return np.concatenate(panels, axis=1)
