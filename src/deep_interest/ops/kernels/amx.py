"""Products of bfloat16 matrices in the tile registers of Intel's AMX: 16 × 16 sums in float32 of 16 × 32 by 32 × 16 factors.

Values are pairs of bfloat16 in an int32 where a tile needs two consecutive rows of the right factor. The caller configures the tiles of its thread
(`configure_tiles`) before the first product, and releases them (`release_tiles`) before it returns.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types

from deep_interest.ops.runtime.jit import intrinsic

TILE = 16  # rows and columns of a tile of sums
DEPTH = 32  # bfloat16 values of a row of the left factor
BLOCK_ROWS = 2 * TILE  # rows that `multiply` computes at once
_BYTE, _INT64 = ir.IntType(8), ir.IntType(64)
_POINTER = _BYTE.as_pointer()
_SUMS, _LEFT, _RIGHT = (
    (0, 1, 2, 3),
    (4, 5),
    (6, 7),
)  # tile registers: 2 × 2 sums, two left and two right factors
_PALETTE, _TILE_BYTES, _FIRST_WIDTH, _FIRST_HEIGHT, _TILES = 1, 64, 16, 48, 8


def tile_configuration() -> np.ndarray:
    """Return the 64 bytes that `configure_tiles` reads: eight tiles of 16 rows and 64 bytes."""
    configuration = np.zeros(64, np.uint8)
    configuration[0] = _PALETTE
    configuration[_FIRST_WIDTH : _FIRST_WIDTH + 2 * _TILES : 2] = _TILE_BYTES
    configuration[_FIRST_HEIGHT : _FIRST_HEIGHT + _TILES] = TILE
    return configuration


def _emit(builder, name, arguments, kinds) -> None:
    kind = ir.FunctionType(ir.VoidType(), kinds)
    builder.call(builder.module.declare_intrinsic(f"llvm.x86.{name}", fnty=kind), arguments)


def _move(builder, name, tile, address, stride) -> None:
    """Load or store a tile, with a stride in bytes between its rows."""
    pointer = builder.inttoptr(address, _POINTER)
    _emit(builder, name, [_BYTE(tile), pointer, stride], [_BYTE, _POINTER, _INT64])


def _needs_compilation(*_):
    raise NotImplementedError("AMX needs compiled kernels")


@intrinsic(_needs_compilation)
def configure_tiles(typing, address):
    """Set the shapes of the tile registers of this thread, from the address of `tile_configuration`."""

    def generate(context, builder, signature, arguments):
        _emit(builder, "ldtilecfg", [builder.inttoptr(arguments[0], _POINTER)], [_POINTER])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic(_needs_compilation)
def release_tiles(typing):
    """Return the tile registers of this thread to their initial state, so that a change of threads need not save them."""

    def generate(context, builder, signature, arguments):
        _emit(builder, "tilerelease", [], [])
        return context.get_dummy_value()

    return types.void(), generate


def _block_of_sums(columns: int):
    """Return intrinsics for 32 rows and one or two tiles of columns: set the sums to 0, add a product, store the sums."""
    sums = [tile for tile in _SUMS if tile % 2 < columns]

    @intrinsic(_needs_compilation)
    def zero(typing):
        def generate(context, builder, signature, arguments):
            for tile in sums:
                _emit(builder, "tilezero", [_BYTE(tile)], [_BYTE])
            return context.get_dummy_value()

        return types.void(), generate

    @intrinsic(_needs_compilation)
    def add_product(typing, left, left_stride, right, right_stride):
        def generate(context, builder, signature, arguments):
            first, left_stride, right, right_stride = arguments
            second = builder.add(first, builder.mul(left_stride, _INT64(TILE)))
            for tile, address in zip(_LEFT, (first, second), strict=True):
                _move(builder, "tileloadd64", tile, address, left_stride)
            for column in range(columns):
                address = builder.add(right, _INT64(_TILE_BYTES * column))
                _move(builder, "tileloadd64", _RIGHT[column], address, right_stride)
            for tile in sums:
                factors = [_BYTE(tile), _BYTE(_LEFT[tile // 2]), _BYTE(_RIGHT[tile % 2])]
                _emit(builder, "tdpbf16ps", factors, [_BYTE] * 3)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), generate

    @intrinsic(_needs_compilation)
    def store(typing, out, stride):
        def generate(context, builder, signature, arguments):
            out, stride = arguments
            for tile in sums:
                address = builder.add(out, _INT64(_TILE_BYTES * (tile % 2)))
                address = builder.add(address, builder.mul(stride, _INT64(TILE * (tile // 2))))
                _move(builder, "tilestored64", tile, address, stride)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return zero, add_product, store


_zero_two, _add_two, _store_two = _block_of_sums(2)
_zero_one, _add_one, _store_one = _block_of_sums(1)


@njit(inline="always")
def multiply(left, right, out):
    """``out = left @ right``.

    Args:
        left: ``(M, K)`` uint16, the bits of bfloat16; M is a multiple of `BLOCK_ROWS`, K of `DEPTH`.
        right: ``(K / 2, N)`` uint32, rows 2k and 2k + 1 in the lower and the upper half; N is a multiple of `TILE`.
        out: OUT ``(M, N)`` float32.
    """
    left_stride, right_stride, out_stride = left.strides[0], right.strides[0], out.strides[0]
    columns = out.shape[1]
    for j in range(0, columns, 2 * TILE):
        for i in range(0, left.shape[0], BLOCK_ROWS):
            row, column = left.ctypes.data + i * left_stride, right.ctypes.data + 4 * j
            result = out.ctypes.data + i * out_stride + 4 * j
            if j + TILE < columns:
                _zero_two()
                for k in range(0, left.shape[1], DEPTH):
                    _add_two(row + 2 * k, left_stride, column + (k // 2) * right_stride, right_stride)
                _store_two(result, out_stride)
            else:
                _zero_one()
                for k in range(0, left.shape[1], DEPTH):
                    _add_one(row + 2 * k, left_stride, column + (k // 2) * right_stride, right_stride)
                _store_one(result, out_stride)
