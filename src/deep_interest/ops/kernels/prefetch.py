"""Rows of a table that a loop will need soon are brought near while it works on others."""

import numpy as np
from llvmlite import ir
from numba import njit, types

from deep_interest.ops.runtime.jit import intrinsic

PREFETCH_DISTANCE = 8  # rows


_CACHE_LINE_BYTES = 64  # bytes that come at once


@njit(inline="always")
def prefetch_row(table, row):
    """Have a row brought into the cache; nothing waits for it, and no result depends on it."""
    first, size = table.ctypes.data + np.int64(row) * table.strides[0], table.strides[0]
    for distance in range(0, size, _CACHE_LINE_BYTES):
        _prefetch_line(first + distance)


@intrinsic(lambda address: None)
def _prefetch_line(typing, address):
    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
        to_read, keep, data = number(0), number(3), number(1)
        builder.call(prefetch, [builder.inttoptr(arguments[0], byte), to_read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate
