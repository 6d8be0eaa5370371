"""Products of small matrices for use within kernels, at the speed of a BLAS from MR rows on.

The right matrix is *packed* into panels of NR columns, in which the values that a micro-kernel reads one after the
other are contiguous. The result is computed in blocks of up to MR rows and PANELS_PER_CALL panels, whose sums stay
in vector registers (`gemm_llvm`).
"""

import numpy as np
from numba import njit
from numpy import float32, int64

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

FLOATS_PER_LINE = 16  # float32 values of a cache line


@njit(inline="always")
def panel_count(columns):
    return (columns + NR - 1) // NR


@njit_no_refcount
def pack_into(right, columns, out):
    """Pack a matrix; the last panel is padded with zeros.

    Args:
        right: ``(K, C)``, of which the first ``columns`` are packed.
        columns: number of columns.
        out: OUT ``(⌈columns / NR⌉, K, NR)`` or larger.
    """
    for j in range(panel_count(columns)):
        panel, first = out[j], j * NR
        width = min(NR, columns - first)
        for k in range(len(right)):
            source, row = right[k, first : first + width], panel[k]
            if width == NR:
                for c in range(NR):
                    row[c] = source[c]
            else:
                row[:] = 0
                for c in range(width):
                    row[c] = source[c]


@njit_strict
def aligned_buffer(size):
    """Return an uninitialised buffer of ``size`` float32 values, aligned to a cache line."""
    buffer = np.empty(size + FLOATS_PER_LINE, float32)
    line = 4 * FLOATS_PER_LINE
    first = (line - buffer.ctypes.data % line) % line // 4
    return buffer[first : first + size]


@njit_strict
def row_buffer(count, columns):
    """Return an uninitialised buffer of rows with at least ``columns`` values.

    A row has an odd number of cache lines, so that rows are spread over all sets of the cache.
    """
    lines = (columns + FLOATS_PER_LINE - 1) // FLOATS_PER_LINE
    width = FLOATS_PER_LINE * (lines + 1 - lines % 2)
    return aligned_buffer(count * width).reshape((count, width))


@njit_strict
def packed_buffer(inner, columns):
    """Return an uninitialised buffer for a packed ``(inner, columns)`` matrix."""
    count = panel_count(columns)
    return aligned_buffer(count * inner * NR).reshape((count, inner, NR))


@njit_strict
def packed_zeros(inner, columns):
    """Return a packed ``(inner, columns)`` matrix of zeros."""
    buffer = packed_buffer(inner, columns)
    buffer[:] = 0
    return buffer


@njit_strict
def pack(right):
    """Return a matrix ``(K, C)`` packed, see `pack_into`."""
    inner, columns = right.shape
    out = packed_buffer(inner, columns)
    pack_into(right, columns, out)
    return out


ROWS_SCALED, COLUMNS_SCALED = range(2)
_unscaled, _rows_scaled, _columns_scaled = (
    micro_kernel(right) for right in (unscaled, rows_scaled, columns_scaled)
)


@njit_no_refcount
def matmul_add(left, right, out):
    """``out += left @ right``.

    Args:
        left: ``(R, K)`` of any strides.
        right: packed ``(K, C)``, or rows ``(K, C)`` of `row_buffer`; may be larger.
        out: INOUT ``(R, C)``.
    """
    _matmul(out.ctypes.data, out.strides[0], left, right, out)


@njit_no_refcount
def matmul_bias(bias, left, right, out):
    """``out = bias + left @ right``; ``bias (C,)`` is added to every row, the rest as in `matmul_add`."""
    _matmul(bias.ctypes.data, 0, left, right, out)


@njit_no_refcount
def _matmul(start, start_row, left, right, out):
    rows, inner = left.shape
    columns = out.shape[1]
    left_row, left_step = left.strides
    out_row = out.strides[0]
    if right.ndim == 3:
        panel, step = right.strides[0], right.strides[1]
    else:
        panel, step = 4 * NR, right.strides[0]
    a, b, c, j = int64(left.ctypes.data), int64(right.ctypes.data), int64(out.ctypes.data), 0
    start, block = int64(start), _block_rows(rows)
    while j < columns:
        width = _block_columns(columns - j)
        for i in range(0, rows, block):
            _call_unscaled(
                min(block, rows - i), width, inner, (a + i * left_row, left_row, left_step), (b, b, step, panel, 0),
                (start + i * start_row, start_row), (c + i * out_row, out_row),
            )  # fmt: skip
        j += width
        b += panel * (width // NR)
        c += 4 * width
        start += 4 * width


@njit_no_refcount
def scaled_matmuls(kind, products, strides, right, right2, columns):
    """Several products ``out = start + left @ (right + diag(factors) @ right2)``, or with COLUMNS_SCALED
    ``start + left @ (right + right2 @ diag(factors))``: a panel is read for all products while it is in the cache.

    Args:
        kind: ROWS_SCALED or COLUMNS_SCALED.
        products: ``(P, 5)`` int64: number of rows, and addresses of left, factors, start and out; factors are
            ``(K,)`` or ``(C,)``.
        strides: bytes from row to row of left, start and out.
        right, right2: packed ``(K, C)``.
        columns: C.
    """
    left_row, start_row, out_row = strides
    inner, panel = right.shape[1], right.strides[0]
    b, b2, j = int64(right.ctypes.data), int64(right2.ctypes.data), 0
    while j < columns:
        width = _block_columns(columns - j)
        for p in range(len(products)):
            rows, a, factors = products[p, 0], products[p, 1], products[p, 2]
            start, c = products[p, 3] + 4 * j, products[p, 4] + 4 * j
            block = _block_rows(rows)
            for i in range(0, rows, block):
                size, left = min(block, rows - i), (a + i * left_row, left_row, 4)
                source, target = (start + i * start_row, start_row), (c + i * out_row, out_row)
                if kind == ROWS_SCALED:
                    operand = (b, b2, 4 * NR, panel, factors)
                    _call_rows_scaled(size, width, inner, left, operand, source, target)
                else:
                    operand = (b, b2, 4 * NR, panel, factors + 4 * j)
                    _call_columns_scaled(size, width, inner, left, operand, source, target)
        j += width
        b += panel * (width // NR)
        b2 += panel * (width // NR)


@njit(inline="always")
def _block_rows(rows):
    """Return the rows of a block: at most MR, and about as many in all blocks."""
    blocks = max(1, (rows + MR - 1) // MR)
    return max(1, (rows + blocks - 1) // blocks)


@njit(inline="always")
def _block_columns(remaining):
    """Return the columns of the next block."""
    return PANELS_PER_CALL * NR if remaining >= PANELS_PER_CALL * NR else min(remaining, NR)


# Functions around the micro-kernels, so that each is compiled once:


@njit_no_refcount
def _call_unscaled(rows, columns, inner, left, right, start, out):
    _unscaled(rows, columns, inner, left, right, start, out)


@njit_no_refcount
def _call_rows_scaled(rows, columns, inner, left, right, start, out):
    _rows_scaled(rows, columns, inner, left, right, start, out)


@njit_no_refcount
def _call_columns_scaled(rows, columns, inner, left, right, start, out):
    _columns_scaled(rows, columns, inner, left, right, start, out)


@njit_no_refcount
def add_segment_products(rows, left, e, segments, count, query, sums):
    """Call `gemm_llvm.segment_micro_kernel`."""
    segment_micro_kernel(rows, left, e, segments, count, query, sums)
