"""DIN's attention with products in bfloat16, for inference: see `ops.attention_bfloat16`."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy import float32, uint16, uint32

from deep_interest.ops.kernels.amx import BLOCK_ROWS, configure_tiles, multiply, release_tiles
from deep_interest.ops.kernels.pooling import pool_segments
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount
from deep_interest.ops.runtime.parallel import partition_bounds

CHUNK_ROWS = 4 * BLOCK_ROWS
_HALF_UNIT, _UPPER = uint32(0x8000), uint32(0xFFFF0000)


class Unit(NamedTuple):
    """An activation unit of two hidden layers; widths are padded with zeros.

    Attributes:
        w1, w3: ``(K, O)`` factors of e and of e∘v, K a multiple of 32 and O of 16.
        constants: ``(B, O)``, W2 v + b of each query.
        queries: ``(B, K)``.
        slope: ``(O,)`` of the first activation.
        second: ``(O' / 2, P)`` uint32, the second layer in pairs of rows as `amx.multiply` takes them; O' is O padded to a multiple of 32.
        second_bias, second_slope, last: ``(P,)`` each.
        last_bias: ``(1,)``.
    """

    w1: np.ndarray
    w3: np.ndarray
    constants: np.ndarray
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
        tiles: `amx.tile_configuration`.
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
    configure_tiles(tiles.ctypes.data)
    start = length = -1
    for b in range(first, last):
        if starts[b] != start or offsets[b + 1] - offsets[b] != length:
            start, length = starts[b], offsets[b + 1] - offsets[b]
            _round_rows(values[start : start + length], behaviors)
        _matrix_of_query(unit.w1, unit.w3, unit.queries[b], matrix)
        for begin in range(0, length, CHUNK_ROWS):
            count = min(CHUNK_ROWS, length - begin)
            padded = (count + BLOCK_ROWS - 1) // BLOCK_ROWS * BLOCK_ROWS
            multiply(behaviors[begin : begin + padded], matrix, sums[:padded])
            _activate(sums[:count], unit.constants[b], unit.slope, hidden)
            multiply(hidden[:padded], unit.second, second[:padded])
            p = offsets[b] + begin
            _scores(second[:count], unit, weights[p : p + count])
    release_tiles()
    pool_segments(pairs, first, last, scale, weights, pooled)


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
def _activate(sums, constant, slope, out):
    for r in range(len(sums)):
        row, target = sums[r], out[r]
        for j in range(len(constant)):
            x = row[j] + constant[j]
            y = max(x, float32(0)) + slope[j] * min(x, float32(0))
            target[j] = uint16(_upper_bits(y) >> uint32(16))


@njit(inline="always")
def _scores(sums, unit, out):
    bias, slope, last = unit.second_bias, unit.second_slope, unit.last
    for r in range(len(sums)):
        row, total = sums[r], float32(0)
        for j in range(len(bias)):
            x = row[j] + bias[j]
            total += last[j] * (max(x, float32(0)) + slope[j] * min(x, float32(0)))
        out[r, 0] = total + unit.last_bias[0]
