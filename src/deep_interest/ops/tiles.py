"""Matrix products of a few rows, for use within compiled loops: at the machine's speed from ROWS rows on.

A tile of the result, up to ROWS rows by sixteen columns, stays in vector registers while the products are added up.
"""

import numpy as np
from numba import float32, njit

from deep_interest.ops.compiled import exact
from deep_interest.ops.vectors import COLUMNS, ROWS, pair_tile, tile


@njit(inline="always")
def panel_count(columns):
    return (columns + COLUMNS - 1) // COLUMNS


@exact
def panels(right, columns, out):
    """Bring a matrix into the order in which `add_product` reads it.

    Shape: the first ``columns`` of ``right (K, C)`` -> ``out (⌈columns / 16⌉, K, 16)`` or with more room; the last ones are
    filled up with zeros.
    """
    for j in range(panel_count(columns)):
        panel, first = out[j], j * COLUMNS
        width = min(COLUMNS, columns - first)
        for k in range(len(right)):
            given, row = right[k, first : first + width], panel[k]
            if width == COLUMNS:
                for c in range(COLUMNS):
                    row[c] = given[c]
            else:
                row[:] = 0
                for c in range(width):
                    row[c] = given[c]


@exact
def rows_of(count, columns):
    """Room for rows of at least so many numbers: an odd number of cache lines each, which the cache spreads best."""
    lines = (columns + 15) // 16
    return np.empty((count, 16 * (lines + 1 - lines % 2)), float32)


@exact
def panels_of(right):
    """As `panels`, in new room."""
    inner, columns = right.shape
    out = np.empty((panel_count(columns), inner, COLUMNS), float32)
    panels(right, columns, out)
    return out


@exact
def add_product(left, right, out):
    """``out += left @ right``.

    Shape: ``left (R, K)`` of any strides, ``right`` as `panels` of ``(K, C)`` in the same room or more, ``out (R, C)``.
    """
    rows, inner = left.shape
    columns = out.shape[1]
    whole = columns // COLUMNS
    left_row, left_step = left.strides
    out_row = out.strides[0]
    a, c = left.ctypes.data, out.ctypes.data
    for j in range(whole):
        b = right.ctypes.data + j * right.strides[0]
        for i in range(0, rows, ROWS):
            add_tile(
                min(ROWS, rows - i), a + i * left_row, left_row, left_step, b, inner,
                c + i * out_row + j * COLUMNS * 4, out_row,
            )  # fmt: skip
    if whole * COLUMNS < columns:
        _last_columns(left, right[whole], out[:, whole * COLUMNS :])


@exact
def _last_columns(left, panel, out):
    """The columns that do not fill a tile."""
    inner = left.shape[1]
    left_row, left_step = left.strides
    edge = np.empty((ROWS, COLUMNS), float32)
    for i in range(0, len(left), ROWS):
        rows = min(ROWS, len(left) - i)
        edge[:] = 0
        add_tile(
            rows, left.ctypes.data + i * left_row, left_row, left_step, panel.ctypes.data, inner, edge.ctypes.data, COLUMNS * 4
        )  # fmt: skip
        for r in range(rows):
            total, more = out[i + r], edge[r]
            for c in range(len(total)):
                total[c] += more[c]


@exact
def add_tile(rows, a, a_row, a_step, b, inner, c, c_row):
    """``c[r, 0:16] += Σ_k a[r, k] · b[k, 0:16]`` for up to ROWS rows r.

    It takes addresses and distances in bytes: of ``a`` and of its next row and next k, of ``b``, the number of k, of ``c``
    and of its next row.
    """
    tile(rows, a, a_row, a_step, b, inner, c, c_row)


@exact
def add_pair_tile(rows, a, a_row, a_step, e, inner, v, to_v, weight, single, product):
    """`vectors.pair_tile`, compiled once."""
    pair_tile(rows, a, a_row, a_step, e, inner, v, to_v, weight, single, product)
