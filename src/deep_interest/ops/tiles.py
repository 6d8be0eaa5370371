"""Matrix products of a few rows, for use within compiled loops: at the machine's speed from ROWS rows on.

A tile of the result, up to ROWS rows by TOGETHER panels of sixteen columns, stays in vector registers while the products are added up.
"""

import numpy as np
from numba import float32, njit

from deep_interest.ops.compiled import exact, uncounted
from deep_interest.ops.vectors import (
    COLUMNS,
    ROWS,
    TOGETHER,
    as_it_is,
    pair_tile,
    tile_of,
    with_columns_scaled,
    with_rows_scaled,
)  # fmt: skip

LINE = 16  # numbers that the cache brings at once


@njit(inline="always")
def panel_count(columns):
    return (columns + COLUMNS - 1) // COLUMNS


@uncounted
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
def room_of(size):
    """Room for so many numbers, from the beginning of a cache line on."""
    room = np.empty(size + LINE, float32)
    first = (4 * LINE - room.ctypes.data % (4 * LINE)) % (4 * LINE) // 4
    return room[first : first + size]


@exact
def rows_of(count, columns):
    """Room for rows of at least so many numbers: an odd number of cache lines each, which the cache spreads best."""
    lines = (columns + LINE - 1) // LINE
    width = LINE * (lines + 1 - lines % 2)
    return room_of(count * width).reshape((count, width))


@exact
def panel_room(inner, columns):
    """Room for the `panels` of ``(inner, columns)``."""
    count = panel_count(columns)
    return room_of(count * inner * COLUMNS).reshape((count, inner, COLUMNS))


@exact
def zero_panels(inner, columns):
    """The same with zeros."""
    room = panel_room(inner, columns)
    room[:] = 0
    return room


@exact
def panels_of(right):
    """As `panels`, in new room."""
    inner, columns = right.shape
    out = panel_room(inner, columns)
    panels(right, columns, out)
    return out


ROWS_SCALED, COLUMNS_SCALED = range(2)
_tile, _tile_by_rows, _tile_by_columns = (
    tile_of(right) for right in (as_it_is, with_rows_scaled, with_columns_scaled)
)


@uncounted
def add_product(left, right, out):
    """``out += left @ right``.

    Shape: ``left (R, K)`` of any strides, ``right`` as `panels` of ``(K, C)`` or as `rows_of` it, in the same room or more, ``out (R, C)``.
    """
    _put_product(out.ctypes.data, out.strides[0], left, right, out)


@uncounted
def put_product(start, left, right, out):
    """``out = start + left @ right``, with ``start (C,)`` for every row."""
    _put_product(start.ctypes.data, 0, left, right, out)


@uncounted
def _put_product(start, start_row, left, right, out):
    rows, inner = left.shape
    columns = out.shape[1]
    left_row, left_step = left.strides
    out_row = out.strides[0]
    if right.ndim == 3:
        panel, line = right.strides[0], right.strides[1]
    else:
        panel, line = 4 * COLUMNS, right.strides[0]
    a, b, c, size, j = left.ctypes.data, right.ctypes.data, out.ctypes.data, _tile_size(rows), 0
    while j < columns:
        width = _tile_width(columns - j)
        for i in range(0, rows, size):
            some, at, to = min(size, rows - i), a + i * left_row, c + i * out_row
            given = start + i * start_row
            _put_tile(
                some, width, at, left_row, left_step, b, line, panel, inner, given, start_row, to, out_row
            )  # fmt: skip
        j += width
        b += panel * (width // COLUMNS)
        c += 4 * width
        start += 4 * width


@uncounted
def put_products_of_two(kind, products, left_row, right, more, start_row, out_row, columns):
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
        width = _tile_width(columns - j)
        for p in range(len(products)):
            rows, a, factors = products[p, 0], products[p, 1], products[p, 2]
            start, c = products[p, 3] + 4 * j, products[p, 4] + 4 * j
            size = _tile_size(rows)
            for i in range(0, rows, size):
                some, at = min(size, rows - i), a + i * left_row
                given, to = start + i * start_row, c + i * out_row
                if kind == ROWS_SCALED:
                    _put_tile_of_rows(
                        some, width, at, left_row, b, m, panel, factors, inner, given, start_row, to, out_row
                    )
                else:
                    _put_tile_of_columns(
                        some, width, at, left_row, b, m, panel, factors + 4 * j, inner, given, start_row, to, out_row
                    )  # fmt: skip
        j += width
        b += panel * (width // COLUMNS)
        m += panel * (width // COLUMNS)


@njit(inline="always")
def _tile_size(rows):
    """Rows of a tile: all tiles have about as many."""
    tiles = max(1, (rows + ROWS - 1) // ROWS)
    return max(1, (rows + tiles - 1) // tiles)


@njit(inline="always")
def _tile_width(columns):
    """Columns of the next tile, of so many that are left."""
    return TOGETHER * COLUMNS if columns >= TOGETHER * COLUMNS else min(columns, COLUMNS)


# Compiled once each:


@uncounted
def _put_tile(rows, columns, a, a_row, a_step, b, line, panel, inner, start, start_row, c, c_row):
    _tile(rows, columns, a, a_row, a_step, b, b, line, panel, 0, inner, start, start_row, c, c_row)


@uncounted
def _put_tile_of_rows(rows, columns, a, a_row, b, more, panel, factors, inner, start, start_row, c, c_row):
    _tile_by_rows(
        rows, columns, a, a_row, 4, b, more, 4 * COLUMNS, panel, factors, inner, start, start_row, c, c_row
    )


@uncounted
def _put_tile_of_columns(rows, columns, a, a_row, b, more, panel, factors, inner, start, start_row, c, c_row):
    _tile_by_columns(
        rows, columns, a, a_row, 4, b, more, 4 * COLUMNS, panel, factors, inner, start, start_row, c, c_row
    )


@uncounted
def add_pair_tile(rows, a, a_step, e, runs, count, v, to_v, weight, single, product):
    pair_tile(rows, a, a_step, e, runs, count, v, to_v, weight, single, product)
