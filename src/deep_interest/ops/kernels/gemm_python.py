"""The micro-kernels of `gemm_llvm` in NumPy, which replace them under ``NUMBA_DISABLE_JIT=1`` to step through a kernel.

They take the same tuples of addresses and strides in bytes, of float32 values.
"""

import ctypes
from collections.abc import Callable

import numpy as np

NR = 16  # columns of a panel, as in `gemm_llvm`


def array_at(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: type = np.float32
) -> np.ndarray:
    """Return the array at an address; it does not own its memory.

    Args:
        address: address of the first element.
        shape: shape of the array.
        strides: strides in bytes, not negative.
        dtype: type of the elements.
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    size = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * (size + np.dtype(dtype).itemsize)).from_address(int(address))
    return np.ndarray(shape, dtype, buffer=memory, strides=strides)


def micro_kernel(scaling: str | None) -> Callable:
    """Make a micro-kernel as `gemm_llvm.micro_kernel`.

    Args:
        scaling: what the factors scale in b2, ``rows`` or ``columns``; None without b2.
    """

    def multiply(rows, columns, inner, left, right, start, out):
        a, a_row, a_step = left
        b, b2, step, panel, factors = right
        matrix = _panels(b, columns, inner, step, panel)
        if scaling is not None:
            scales = array_at(factors, (inner if scaling == "rows" else columns,), (4,))
            second = _panels(b2, columns, inner, step, panel)
            matrix = matrix + (scales[:, None] if scaling == "rows" else scales) * second
        source = array_at(start[0], (rows, columns), (start[1], 4)).copy()
        product = array_at(a, (rows, inner), (a_row, a_step)) @ matrix
        array_at(out[0], (rows, columns), (out[1], 4))[:] = source + product

    return multiply


def segment_micro_kernel(rows, left, e, segments, count, query, sums):
    """Accumulate gradients as `gemm_llvm.segment_micro_kernel`."""
    a, a_step = left
    weight, grad_single, grad_product = (array_at(address, (rows, NR), (4 * NR, 4)) for address in sums)
    v, grad_v = (array_at(address, (count, NR), (4 * NR, 4)) for address in query)
    for s, (begin, end) in enumerate(array_at(segments, (count, 2), (24, 8), np.int64)):
        size = int(end - begin)
        segment = array_at(e + int(begin) * 4 * NR, (size, NR), (4 * NR, 4))
        product = array_at(a + int(begin) * a_step, (size, rows), (a_step, 4)).T @ segment
        grad_single += product
        grad_product += product * v[s]
        grad_v[s] += (weight * product).sum(0)


def dot(a, b, count):
    """Compute a dot product as `gemm_llvm.dot`."""
    return array_at(a, (count,), (4,)) @ array_at(b, (count,), (4,))


def _panels(address: int, columns: int, inner: int, step: int, panel: int) -> np.ndarray:
    """Return the first columns of a packed matrix. Shape: ``(inner, columns)``."""
    panels = [
        array_at(address + j * panel, (inner, min(NR, columns - NR * j)), (step, 4))
        for j in range(-(-columns // NR))
    ]
    return np.concatenate(panels, axis=1)
