"""Products of bfloat16 matrices on CPUs without AMX, with the bits that the tile registers have.

AMX sums 16 products of values at even and 16 at odd positions, each in order, and adds the sum of both to the result; every step is rounded to
float32 (TDPBF16PS in Intel's Software Developer's Manual). Two bfloat16 values have an exact product in float32, so that a fused multiply-add rounds
like a multiplication and an addition. Only values below 1e-38 differ, which AMX takes for 0.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numpy import uint32

from deep_interest.ops.kernels.amx import BLOCK_ROWS, DEPTH
from deep_interest.ops.kernels.gemm_python import array_at
from deep_interest.ops.kernels.llvm import (
    HAS_AVX512,
    INT32,
    INT64,
    LANES,
    VECTOR,
    ZERO,
    broadcast,
    load,
    loop,
    multiply_add,
    store,
)
from deep_interest.ops.runtime.jit import intrinsic, njit_strict

ROWS = 4  # of a block whose sums are in registers
COLUMNS = 2 * LANES if HAS_AVX512 else LANES
_HALF = 16  # bits of a bfloat16
_PAIRS = DEPTH // 2
_FLOAT = ir.FloatType()


def _block_in_numpy(depths, left, left_stride, right, right_stride, out, out_stride, *, columns: int):
    factors = array_at(left, (ROWS, depths * DEPTH), (left_stride, 4))
    pairs = array_at(right, (depths * _PAIRS, columns), (right_stride, 4), np.uint32)
    matrices = (pairs << uint32(_HALF)).view(np.float32), (pairs & uint32(0xFFFF0000)).view(np.float32)
    total = np.zeros((ROWS, columns), np.float32)
    for first in range(0, len(pairs), _PAIRS):
        sums = np.zeros((2, ROWS, columns), np.float32)
        for pair in range(first, first + _PAIRS):
            for odd, matrix in enumerate(matrices):
                sums[odd] += factors[:, 2 * pair + odd, None] * matrix[pair]
        total += sums[0] + sums[1]
    array_at(out, (ROWS, columns), (out_stride, 4))[:] = total


def _block_product(columns: int):
    """Return an intrinsic for `ROWS` rows and some columns: the product of left, in float32, and right, in pairs of rows."""
    vectors = columns // LANES

    def python_version(*arguments):
        _block_in_numpy(*arguments, columns=columns)

    @intrinsic(python_version)
    def multiply_block(typing, depths, left, left_stride, right, right_stride, out, out_stride):
        def generate(context, builder, signature, arguments):
            depths, left, left_stride, right, right_stride, out, out_stride = arguments

            def pair(addresses, sums):
                matrices = _load_pairs(builder, addresses[1], vectors)
                results = []
                for r in range(ROWS):
                    row = builder.add(addresses[0], builder.mul(left_stride, INT64(r)))
                    for odd, matrix in enumerate(matrices):
                        address = builder.add(row, INT64(4 * odd))
                        factor = broadcast(builder, load(builder, address, _FLOAT))
                        results += [
                            multiply_add(builder, sums[len(results) + i], factor, vector)
                            for i, vector in enumerate(matrix)
                        ]
                return results

            def depth(addresses, totals):
                streams = [(addresses[0], INT64(8)), (addresses[1], right_stride)]
                sums = loop(builder, [ZERO] * (2 * ROWS * vectors), INT64(_PAIRS), streams, pair)
                results = []
                for r in range(ROWS):
                    even, odd = (sums[(2 * r + i) * vectors : (2 * r + i + 1) * vectors] for i in range(2))
                    results += [builder.fadd(*both) for both in zip(even, odd, strict=True)]
                return [builder.fadd(*both) for both in zip(totals, results, strict=True)]

            streams = [(left, INT64(4 * DEPTH)), (right, builder.mul(right_stride, INT64(_PAIRS)))]
            totals = loop(builder, [ZERO] * (ROWS * vectors), depths, streams, depth)
            for i, total in enumerate(totals):
                row = builder.add(out, builder.mul(out_stride, INT64(i // vectors)))
                store(builder, total, builder.add(row, INT64(4 * LANES * (i % vectors))))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return multiply_block


def _load_pairs(builder, address, vectors: int) -> tuple[list, list]:
    """Return the vectors of the lower and of the upper halves of integers, as float32."""
    integers = ir.VectorType(INT32, LANES)
    shift, mask = (ir.Constant(integers, [bits] * LANES) for bits in (_HALF, 0xFFFF0000))
    words = [load(builder, builder.add(address, INT64(4 * LANES * i)), integers) for i in range(vectors)]
    lower = [builder.bitcast(builder.shl(word, shift), VECTOR) for word in words]
    return lower, [builder.bitcast(builder.and_(word, mask), VECTOR) for word in words]


_block, _narrow_block = _block_product(COLUMNS), _block_product(LANES)


@njit_strict
def multiply(left, right, out):
    """``out = left @ right``, as `amx.multiply`; the number of rows is a multiple of `ROWS`."""
    depths, columns = left.shape[1] // DEPTH, out.shape[1]
    factors = np.empty((BLOCK_ROWS, left.shape[1]), uint32)
    for i in range(0, left.shape[0], BLOCK_ROWS):
        _widen(left[i : i + BLOCK_ROWS], factors)
        for j in range(0, columns, COLUMNS):
            for r in range(0, min(BLOCK_ROWS, left.shape[0] - i), ROWS):
                a, b = factors[r:].ctypes.data, right.ctypes.data + 4 * j
                result = out.ctypes.data + (i + r) * out.strides[0] + 4 * j
                if j + COLUMNS <= columns:
                    _block(depths, a, factors.strides[0], b, right.strides[0], result, out.strides[0])
                else:
                    _narrow_block(depths, a, factors.strides[0], b, right.strides[0], result, out.strides[0])


@njit(inline="always")
def _widen(rows, out):
    for r in range(len(rows)):
        row, target = rows[r], out[r]
        for k in range(len(row)):
            target[k] = uint32(row[k]) << uint32(_HALF)
