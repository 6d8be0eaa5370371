"""Software prefetch of the rows of a table that a loop needs soon."""

import numpy as np
from llvmlite import ir
from numba import njit, types

from deep_interest.ops.runtime.jit import intrinsic

PREFETCH_DISTANCE = 8  # rows
_CACHE_LINE_BYTES = 64


@njit(inline="always")
def prefetch_row(table, row):
    """Start loading a row into the cache; no result depends on it, and the row may be any index of the table."""
    first, size = table.ctypes.data + np.int64(row) * table.strides[0], table.strides[0]
    for distance in range(0, size, _CACHE_LINE_BYTES):
        _prefetch_line(first + distance)


@intrinsic(lambda address: None)
def _prefetch_line(typing, address):
    def generate(context, builder, signature, arguments):
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
        read, high_locality, data_cache = int32(0), int32(3), int32(1)
        pointer = builder.inttoptr(arguments[0], byte_pointer)
        builder.call(prefetch, [pointer, read, high_locality, data_cache])
        return context.get_dummy_value()

    return types.void(types.int64), generate
