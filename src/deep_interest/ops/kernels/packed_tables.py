"""Loops of the lookup in tables of reduced precision: only the rows of the codes become float32."""

import numpy as np

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def gather_scaled_rows(values, scales, codes, out, column, partition, partitions):
    """Copy rows of an int8 table to some columns, each multiplied by its scale.

    Args:
        values: ``(R, D)`` int8.
        scales: ``(R,)`` float32.
        codes: ``(n,)`` row indices.
        out: OUT ``(n, W)`` float32; columns ``[column, column + D)`` are written.
        column: first column.
    """
    first, last = partition_bounds(len(codes), partition, partitions)
    width = values.shape[1]
    for i in range(first, last):
        if i + PREFETCH_DISTANCE < last:
            prefetch_row(values, codes[i + PREFETCH_DISTANCE])
        row, scale = values[codes[i]], scales[codes[i]]
        target = out[i, column : column + width]
        for j in range(width):
            target[j] = np.float32(row[j]) * scale


@kernel
def gather_half_rows(bits, shift, factor, codes, out, column, partition, partitions):
    """Copy rows of a table of 16-bit floats to some columns.

    Exponent and fraction, moved to their position in a float32, are the number times a power of two, which ``factor`` corrects: the
    exponents of the two formats differ by a constant. The product is exact, also for subnormal numbers.

    Args:
        bits: ``(R, D)`` uint16, the numbers' bits.
        shift: difference of the fractions' lengths: 13 bits for float16, 16 for bfloat16.
        factor: float32, 2^112 for float16, 1 for bfloat16.
        codes: ``(n,)`` row indices.
        out: OUT ``(n, W)`` float32; columns ``[column, column + D)`` are written.
        column: first column.
    """
    first, last = partition_bounds(len(codes), partition, partitions)
    width = bits.shape[1]
    for i in range(first, last):
        if i + PREFETCH_DISTANCE < last:
            prefetch_row(bits, codes[i + PREFETCH_DISTANCE])
        row = bits[codes[i]]
        target = out[i, column : column + width]
        for j in range(width):
            number = np.uint32(row[j])
            moved = np.uint32((number & np.uint32(0x8000)) << np.uint32(16)) | np.uint32(
                (number & np.uint32(0x7FFF)) << shift
            )
            target[j] = np.uint32(moved).view(np.float32) * factor
