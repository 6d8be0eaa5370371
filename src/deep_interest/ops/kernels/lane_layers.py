"""Layers of an MLP whose rows are the lanes of vectors, for inference: sums stay in registers until their activation is stored.

A *lane matrix* ``(K, LANES_PER_GROUP)`` has a column for each row of the MLP's input. A layer is packed as `pack_layer` does. Its blocks of
outputs are computed for all lanes, or for half of them if no more are used.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numpy import float32

from deep_interest.ops.kernels.gemm_python import array_at
from deep_interest.ops.kernels.llvm import (
    HAS_AVX512,
    INT64,
    LANES,
    ZERO,
    broadcast,
    constant,
    load,
    loop,
    multiply_add,
    reciprocal,
    store,
)
from deep_interest.ops.kernels.llvm_activations import fraction_of_tanh
from deep_interest.ops.kernels.mlp_chunk import LINEAR, SIGMOID
from deep_interest.ops.runtime.jit import intrinsic, njit_no_refcount, njit_strict

LANES_PER_GROUP = 2 * LANES
BLOCKS = (
    (10, 8) if HAS_AVX512 else (5, 4)
)  # outputs of a block: as many as fit the registers; the first that divides the outputs, or the last
_ROW = INT64(4 * LANES_PER_GROUP)
_FLOAT = ir.FloatType()


class LaneLayer(NamedTuple):
    """A packed layer; the outputs are padded with zeros to a multiple of the block.

    Attributes:
        weight: ``(O / R, K, R)``.
        bias, slope: ``(O,)``; the slope of negative values, 0 for a ReLU.
        activation: LINEAR, SIGMOID, or another for slopes.
    """

    weight: np.ndarray
    bias: np.ndarray
    slope: np.ndarray
    activation: int


@njit(inline="always")
def _block_of(outputs):
    return BLOCKS[0] if outputs % BLOCKS[0] == 0 else BLOCKS[1]


@njit_strict
def pack_layer(weight, bias, slope, activation):
    """Return the `LaneLayer` of a weight ``(O, K)`` of any strides; an empty bias or slope is 0."""
    outputs, inner = weight.shape
    rows = _block_of(outputs)
    blocks = (outputs + rows - 1) // rows
    packed = np.zeros((blocks, inner, rows), float32)
    for o in range(outputs):
        for k in range(inner):
            packed[o // rows, k, o % rows] = weight[o, k]
    return LaneLayer(packed, _padded(bias, blocks * rows), _padded(slope, blocks * rows), activation)


@njit_strict
def _padded(values, size):
    out = np.zeros(size, float32)
    out[: len(values)] = values
    return out


@njit_no_refcount
def apply_layer(layer, scalars, x, start, lanes, out):
    """``out = activation(start + scalars + weight @ x)``.

    Args:
        layer: `LaneLayer`; its bias is not used.
        scalars: ``(O,)`` what is added to all lanes.
        x: lane matrix of the inputs.
        start: lane matrix of the outputs.
        lanes: number of lanes in use.
        out: OUT lane matrix of the outputs; may be ``start``.
    """
    rows, inner = layer.weight.shape[2], layer.weight.shape[1]
    for block in range(len(layer.weight)):
        first = block * rows
        operands = (
            layer.weight.ctypes.data + block * layer.weight.strides[0], inner, x.ctypes.data,
            start.ctypes.data + first * start.strides[0], scalars.ctypes.data + 4 * first,
            layer.slope.ctypes.data + 4 * first, out.ctypes.data + first * out.strides[0], 0,
        )  # fmt: skip
        _call(layer.activation, rows, lanes, False, operands)


@njit_no_refcount
def apply_and_sum(layer, x, start, lanes, factors, total):
    """``total += factors · activation(start + bias + weight @ x)``.

    Args:
        layer, x, start, lanes: as in `apply_layer`.
        factors: ``(O,)``.
        total: INOUT ``(LANES_PER_GROUP,)``.
    """
    rows, inner = layer.weight.shape[2], layer.weight.shape[1]
    for block in range(len(layer.weight)):
        first = block * rows
        operands = (
            layer.weight.ctypes.data + block * layer.weight.strides[0], inner, x.ctypes.data,
            start.ctypes.data + first * start.strides[0], layer.bias.ctypes.data + 4 * first,
            layer.slope.ctypes.data + 4 * first, total.ctypes.data, factors.ctypes.data + 4 * first,
        )  # fmt: skip
        _call(layer.activation, rows, lanes, True, operands)


def _block_in_numpy(kind: str, rows: int, lanes: int, operands) -> None:
    """The intrinsics below in NumPy."""
    weight, inner, x, start, scalars, slope, out, factors = operands
    row = 4 * LANES_PER_GROUP
    matrix, right = array_at(weight, (inner, rows), (4 * rows, 4)), array_at(x, (inner, lanes), (row, 4))
    sums = array_at(start, (rows, lanes), (row, 4)) + array_at(scalars, (rows, 1), (4, 4)) + matrix.T @ right
    if kind.startswith("sigmoid"):
        sums = 1 / (1 + np.exp(-sums))
    elif kind.startswith("slope"):
        sums = np.where(sums > 0, sums, sums * array_at(slope, (rows, 1), (4, 4)))
    if kind.endswith("sum"):
        array_at(out, (lanes,), (4,))[:] += (array_at(factors, (rows, 1), (4, 4)) * sums).sum(0)
    else:
        array_at(out, (rows, lanes), (row, 4))[:] = sums


def _block(kind: str, rows: int, vectors: int):
    """Return an intrinsic for a block of outputs.

    Its operands: address of the weights ``(K, rows)``; K; addresses of the inputs, of the start, of the scalars and of the slopes of the
    outputs; address of the results, or of their weighted sum; address of the weights of this sum.
    """

    def python_version(operands):
        _block_in_numpy(kind, rows, vectors * LANES, operands)

    @intrinsic(python_version)
    def block(typing, operands):
        def generate(context, builder, signature, arguments):
            weight, inner, x, start, scalars, slope, out, factors = (
                builder.extract_value(arguments[0], index) for index in range(8)
            )

            def at(address, row, vector=0):
                offset = builder.mul(_ROW, INT64(row)) if row else INT64(0)
                return builder.add(builder.add(address, offset), INT64(4 * LANES * vector))

            def scalar(address, index):
                return broadcast(builder, load(builder, builder.add(address, INT64(4 * index)), _FLOAT))

            initial = [
                builder.fadd(load(builder, at(start, row, vector)), scalar(scalars, row))
                for row in range(rows)
                for vector in range(vectors)
            ]

            def body(addresses, totals):
                left, right = addresses
                inputs = [load(builder, at(right, 0, vector)) for vector in range(vectors)]
                results: list = []
                for row in range(rows):
                    factor = scalar(left, row)
                    results += [
                        multiply_add(builder, totals[len(results) + i], factor, inputs[i])
                        for i in range(vectors)
                    ]
                return results

            sums = loop(builder, initial, inner, [(weight, INT64(4 * rows)), (x, _ROW)], body)
            totals = [
                load(builder, at(out, 0, vector)) if kind.endswith("sum") else None
                for vector in range(vectors)
            ]
            for index, total in enumerate(sums):
                row, vector = divmod(index, vectors)
                y = _activation(builder, kind, total, lambda row=row: scalar(slope, row))
                if kind.endswith("sum"):
                    totals[vector] = multiply_add(builder, totals[vector], scalar(factors, row), y)
                else:
                    store(builder, y, at(out, row, vector))
            if kind.endswith("sum"):
                for vector, total in enumerate(totals):
                    store(builder, total, at(out, 0, vector))
            return context.get_dummy_value()

        return types.void(types.UniTuple(types.int64, 8)), generate

    return block


def _activation(builder, kind: str, x, slope):
    if kind.startswith("sigmoid"):
        half = constant(0.5)
        numerator, denominator = fraction_of_tanh(builder, builder.fmul(half, x))
        return multiply_add(builder, half, builder.fmul(half, numerator), reciprocal(builder, denominator))
    if kind.startswith("slope"):
        return builder.select(builder.fcmp_ordered(">", x, ZERO), x, builder.fmul(x, slope()))
    return x


def _caller(kind: str):
    """Return a function that calls the intrinsic for the block and the lanes in use."""
    large, small = BLOCKS
    wide, narrow = _block(kind, large, 2), _block(kind, large, 1)
    wide_small, narrow_small = _block(kind, small, 2), _block(kind, small, 1)

    @njit_no_refcount
    def call(rows, lanes, operands):
        if rows == large:
            if lanes > LANES:
                wide(operands)
            else:
                narrow(operands)
        elif lanes > LANES:
            wide_small(operands)
        else:
            narrow_small(operands)

    return call


_linear, _slope, _sigmoid = (_caller(kind) for kind in ("linear", "slope", "sigmoid"))
_slope_sum, _sigmoid_sum = (_caller(kind) for kind in ("slope sum", "sigmoid sum"))


@njit_no_refcount
def _call(activation, rows, lanes, summed, operands):
    if activation == SIGMOID:
        if summed:
            _sigmoid_sum(rows, lanes, operands)
        else:
            _sigmoid(rows, lanes, operands)
    elif summed:
        _slope_sum(rows, lanes, operands)
    elif activation == LINEAR:
        _linear(rows, lanes, operands)
    else:
        _slope(rows, lanes, operands)
