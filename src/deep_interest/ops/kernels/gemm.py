"""Matrix products of a few rows, for use within compiled loops: at the machine's speed from ROWS rows on.

A tile of the result, up to ROWS rows by TOGETHER panels of sixteen columns, stays in vector registers while the products are added up.
"""

import numpy as np
from numba import njit
from numpy import float32

from deep_interest.ops.kernels.gemm_llvm import (
    MR,
    NR,
    PANELS_PER_CALL,
    columns_scaled,
    micro_kernel,
    rows_scaled,
    segment_micro_kernel,
    unscaled,
)
from deep_interest.ops.runtime.jit import njit_no_refcount, njit_strict

FLOATS_PER_LINE = 16  # numbers that the cache brings at once


@njit(inline="always")
def panel_count(columns):
    return (columns + NR - 1) // NR


@njit_no_refcount
def pack_into(right, columns, out):
    """Bring a matrix into the order in which `add_product` reads it.

    Shape: the first ``columns`` of ``right (K, C)`` -> ``out (⌈columns / 16⌉, K, 16)`` or with more room; the last ones are
    filled up with zeros.
    """
    for j in range(panel_count(columns)):
        panel, first = out[j], j * NR
        width = min(NR, columns - first)
        for k in range(len(right)):
            given, row = right[k, first : first + width], panel[k]
            if width == NR:
                for c in range(NR):
                    row[c] = given[c]
            else:
                row[:] = 0
                for c in range(width):
                    row[c] = given[c]


@njit_strict
def aligned_buffer(size):
    """Room for so many numbers, from the beginning of a cache line on."""
    room = np.empty(size + FLOATS_PER_LINE, float32)
    first = (4 * FLOATS_PER_LINE - room.ctypes.data % (4 * FLOATS_PER_LINE)) % (4 * FLOATS_PER_LINE) // 4
    return room[first : first + size]


@njit_strict
def row_buffer(count, columns):
    """Room for rows of at least so many numbers: an odd number of cache lines each, which the cache spreads best."""
    lines = (columns + FLOATS_PER_LINE - 1) // FLOATS_PER_LINE
    width = FLOATS_PER_LINE * (lines + 1 - lines % 2)
    return aligned_buffer(count * width).reshape((count, width))


@njit_strict
def packed_buffer(inner, columns):
    """Room for the `panels` of ``(inner, columns)``."""
    count = panel_count(columns)
    return aligned_buffer(count * inner * NR).reshape((count, inner, NR))


@njit_strict
def zero_packed(inner, columns):
    """The same with zeros."""
    room = packed_buffer(inner, columns)
    room[:] = 0
    return room


@njit_strict
def pack(right):
    """As `panels`, in new room."""
    inner, columns = right.shape
    out = packed_buffer(inner, columns)
    pack_into(right, columns, out)
    return out


ROWS_SCALED, COLUMNS_SCALED = range(2)


_micro_kernel, _micro_kernel_rows_scaled, _micro_kernel_columns_scaled = (
    micro_kernel(right) for right in (unscaled, rows_scaled, columns_scaled)
)


@njit_no_refcount
def matmul_add(left, right, out):
    """``out += left @ right``.

    Shape: ``left (R, K)`` of any strides, ``right`` as `panels` of ``(K, C)`` or as `rows_of` it, in the same room or more, ``out (R, C)``.
    """
    _matmul(out.ctypes.data, out.strides[0], left, right, out)


@njit_no_refcount
def matmul_bias(start, left, right, out):
    """``out = start + left @ right``, with ``start (C,)`` for every row."""
    _matmul(start.ctypes.data, 0, left, right, out)


@njit_no_refcount
def _matmul(start, start_row, left, right, out):
    rows, inner = left.shape
    columns = out.shape[1]
    left_row, left_step = left.strides
    out_row = out.strides[0]
    if right.ndim == 3:
        panel, line = right.strides[0], right.strides[1]
    else:
        panel, line = 4 * NR, right.strides[0]
    a, b, c, size, j = left.ctypes.data, right.ctypes.data, out.ctypes.data, _block_rows(rows), 0
    while j < columns:
        width = _block_columns(columns - j)
        for i in range(0, rows, size):
            some, at, to = min(size, rows - i), a + i * left_row, c + i * out_row
            given = start + i * start_row
            _call_micro_kernel(
                some, width, at, left_row, left_step, b, line, panel, inner, given, start_row, to, out_row
            )  # fmt: skip
        j += width
        b += panel * (width // NR)
        c += 4 * width
        start += 4 * width


@njit_no_refcount
def scaled_matmuls(kind, products, left_row, right, more, start_row, out_row, columns):
    """``out = start + left @ (right + diag(factors) more)`` for several products, or with COLUMNS_SCALED
    ``start + left @ (right + more diag(factors))``: a panel is read for all of them while it is near.

    Args:
        kind: ROWS_SCALED or COLUMNS_SCALED.
        products: ``(P, 5)`` int64, of each the rows, and where left, factors, start and out lie, as addresses.
        left_row, start_row, out_row: bytes from row to row.
        right, more: as `panels` of ``(K, C)``; factors are ``(K,)``, or ``(C,)``.
        columns: C.
    """
    inner, panel = right.shape[1], right.strides[0]
    b, m, j = right.ctypes.data, more.ctypes.data, 0
    while j < columns:
        width = _block_columns(columns - j)
        for p in range(len(products)):
            rows, a, factors = products[p, 0], products[p, 1], products[p, 2]
            start, c = products[p, 3] + 4 * j, products[p, 4] + 4 * j
            size = _block_rows(rows)
            for i in range(0, rows, size):
                some, at = min(size, rows - i), a + i * left_row
                given, to = start + i * start_row, c + i * out_row
                if kind == ROWS_SCALED:
                    _call_rows_scaled(
                        some, width, at, left_row, b, m, panel, factors, inner, given, start_row, to, out_row
                    )
                else:
                    _call_columns_scaled(
                        some, width, at, left_row, b, m, panel, factors + 4 * j, inner, given, start_row, to, out_row
                    )  # fmt: skip
        j += width
        b += panel * (width // NR)
        m += panel * (width // NR)


@njit(inline="always")
def _block_rows(rows):
    """Rows of a tile: all tiles have about as many."""
    tiles = max(1, (rows + MR - 1) // MR)
    return max(1, (rows + tiles - 1) // tiles)


@njit(inline="always")
def _block_columns(columns):
    """Columns of the next tile, of so many that are left."""
    return PANELS_PER_CALL * NR if columns >= PANELS_PER_CALL * NR else min(columns, NR)


@njit_no_refcount
def _call_micro_kernel(rows, columns, a, a_row, a_step, b, line, panel, inner, start, start_row, c, c_row):
    _micro_kernel(rows, columns, a, a_row, a_step, b, b, line, panel, 0, inner, start, start_row, c, c_row)


@njit_no_refcount
def _call_rows_scaled(rows, columns, a, a_row, b, more, panel, factors, inner, start, start_row, c, c_row):
    _micro_kernel_rows_scaled(
        rows, columns, a, a_row, 4, b, more, 4 * NR, panel, factors, inner, start, start_row, c, c_row
    )


@njit_no_refcount
def _call_columns_scaled(rows, columns, a, a_row, b, more, panel, factors, inner, start, start_row, c, c_row):
    _micro_kernel_columns_scaled(
        rows, columns, a, a_row, 4, b, more, 4 * NR, panel, factors, inner, start, start_row, c, c_row
    )


@njit_no_refcount
def add_segment_products(rows, a, a_step, e, runs, count, v, to_v, weight, single, product):
    segment_micro_kernel(rows, a, a_step, e, runs, count, v, to_v, weight, single, product)
