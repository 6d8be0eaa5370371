"""DIN's attention with products in bfloat16, for inference: see `ops.attention_bfloat16`.

All sums of a score have a fixed order, that of AMX's tile registers: no score depends on the other queries, on the vector registers, or on whether
the CPU has AMX.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy import float32, uint16, uint32

from deep_interest.ops.kernels import amx, bfloat16
from deep_interest.ops.kernels.amx import BLOCK_ROWS, TILE
from deep_interest.ops.kernels.pooling import pool_segments
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds

CHUNK_ROWS = 4 * BLOCK_ROWS
_HALF_UNIT, _UPPER = uint32(0x8000), uint32(0xFFFF0000)


class Unit(NamedTuple):
    """An activation unit of two hidden layers; widths are padded with zeros.

    Attributes:
        w1, w2, w3: ``(K, O)`` factors of e, v and e∘v, K a multiple of 32 and O of 16.
        bias: ``(O,)`` of the first layer.
        queries: ``(B, K)``.
        slope: ``(O,)`` of the first activation.
        second: ``(O' / 2, P)`` uint32, the second layer in pairs of rows as `amx.multiply` takes them; O' is O padded to a multiple of 32.
        second_bias, second_slope, last: ``(P,)`` each.
        last_bias: ``(1,)``.
    """

    w1: np.ndarray
    w2: np.ndarray
    w3: np.ndarray
    bias: np.ndarray
    queries: np.ndarray
    slope: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    second_slope: np.ndarray
    last: np.ndarray
    last_bias: np.ndarray


@kernel
def attention_pool_bfloat16(pairs, unit, tiles, scale, weights, pooled, partition, partitions):
    """Weight the behaviours of each segment by their scores, and sum them.

    Args:
        pairs: `pair_layer.Pairs`.
        unit: `Unit`.
        tiles: `amx.tile_configuration`; None for a CPU without AMX.
        scale: scale of the softmax over the scores; 0 for none.
        weights: OUT ``(N, 1)`` what the behaviours are multiplied by.
        pooled: OUT ``(B, D)``.
    """
    values, _, offsets, starts = pairs
    first, last = partition_bounds(len(starts), partition, partitions)
    longest = 0
    for b in range(first, last):
        longest = max(longest, offsets[b + 1] - offsets[b])
    rows = (longest + BLOCK_ROWS - 1) // BLOCK_ROWS * BLOCK_ROWS
    behaviors = np.zeros((rows, unit.w1.shape[0]), uint16)
    matrix = np.empty((unit.w1.shape[0] // 2, unit.w1.shape[1]), uint32)
    sums = np.empty((CHUNK_ROWS, unit.w1.shape[1]), float32)
    hidden = np.zeros((CHUNK_ROWS, 2 * len(unit.second)), uint16)
    second = np.empty((CHUNK_ROWS, unit.second.shape[1]), float32)
    constants = np.empty(len(unit.bias), float32)
    multiple = bfloat16.ROWS if tiles is None else BLOCK_ROWS
    _begin(tiles)
    start = length = -1
    for b in range(first, last):
        if starts[b] != start or offsets[b + 1] - offsets[b] != length:
            start, length = starts[b], offsets[b + 1] - offsets[b]
            _round_rows(values[start : start + length], behaviors)
        _matrix_of_query(unit.w1, unit.w3, unit.queries[b], matrix)
        _constants_of_query(unit.bias, unit.w2, unit.queries[b], constants)
        for begin in range(0, length, CHUNK_ROWS):
            count = min(CHUNK_ROWS, length - begin)
            padded = (count + multiple - 1) // multiple * multiple
            _multiply(tiles, behaviors[begin : begin + padded], matrix, sums[:padded])
            _activate(sums[:count], constants, unit.slope, hidden)
            _multiply(tiles, hidden[:padded], unit.second, second[:padded])
            p = offsets[b] + begin
            _scores(second[:count], unit, weights[p : p + count])
    _end(tiles)
    pool_segments(pairs, first, last, scale, weights, pooled)


@njit_strict
def _begin(tiles):
    if tiles is not None:
        amx.configure_tiles(tiles.ctypes.data)


@njit_strict
def _multiply(tiles, left, right, out):
    if tiles is None:  # numba compiles one of the branches
        bfloat16.multiply(left, right, out)
    else:
        amx.multiply(left, right, out)


@njit_strict
def _end(tiles):
    if tiles is not None:
        amx.release_tiles()


@njit(inline="always")
def _upper_bits(x):
    """Return the bits of the nearest bfloat16 in the upper half of an integer; ties are rounded away from 0."""
    return uint32(float32(x).view(uint32) + _HALF_UNIT)


@njit_no_refcount
def _round_rows(rows, out):
    for r in range(len(rows)):
        row, target = rows[r], out[r]
        for j in range(len(row)):
            target[j] = uint16(_upper_bits(row[j]) >> uint32(16))


@njit_no_refcount
def _matrix_of_query(w1, w3, query, out):
    """Write ``W1 + W3 diag v``, transposed, in pairs of rows."""
    for i in range(len(out)):
        low, high = query[2 * i], query[2 * i + 1]
        a, b, target = w1[2 * i], w3[2 * i], out[i]
        c, d = w1[2 * i + 1], w3[2 * i + 1]
        for j in range(len(target)):
            lower = _upper_bits(a[j] + b[j] * low) >> uint32(16)
            target[j] = uint32(lower | (_upper_bits(c[j] + d[j] * high) & _UPPER))


@njit_no_refcount
def _constants_of_query(bias, w2, query, out):
    """``out = W2 v + b``."""
    for j in range(len(out)):
        out[j] = bias[j]
    for k in range(len(query)):
        row, factor = w2[k], query[k]
        for j in range(len(out)):
            out[j] += row[j] * factor


@njit_no_refcount
def _activate(sums, constant, slope, out):
    for r in range(len(sums)):
        row, target = sums[r], out[r]
        for j in range(len(constant)):
            x = row[j] + constant[j]
            y = max(x, float32(0)) + slope[j] * min(x, float32(0))
            target[j] = uint16(_upper_bits(y) >> uint32(16))


@njit_no_refcount
def _scores(sums, unit, out):
    """Write the scores of rows, and sums in their place."""
    bias, slope, last = unit.second_bias, unit.second_slope, unit.last
    for r in range(len(sums)):
        row = sums[r]
        for j in range(len(bias)):
            x = row[j] + bias[j]
            row[j] = last[j] * (max(x, float32(0)) + slope[j] * min(x, float32(0)))
        out[r, 0] = _sum_by_tiles(row) + unit.last_bias[0]


@njit_no_refcount
def _sum_by_tiles(row):
    """Add the tiles of a row in its first, and return the sum of that one by halves."""
    for first in range(TILE, len(row), TILE):
        for j in range(TILE):
            row[j] += row[first + j]
    half = TILE // 2
    while half:
        for j in range(half):
            row[j] += row[half + j]
        half //= 2
    return row[0]
