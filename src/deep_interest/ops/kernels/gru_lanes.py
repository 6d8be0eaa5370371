"""Attention-gated GRUs of one history with many candidates: the last states only, for inference.

Each lane of a vector is a candidate. A step multiplies the weights of a few units with the states of `LANES_PER_GROUP` candidates, whose sums stay
in registers until the new states of the units are known. Nothing is padded to whole vectors but the number of candidates, and what the
behaviours add to the gates is one number for all lanes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numpy import float32, int64

from deep_interest.ops.kernels.gemm import aligned_buffer
from deep_interest.ops.kernels.gemm_python import array_at
from deep_interest.ops.kernels.gru_step import AGRU, AUGRU, AUGRU_CODE
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
from deep_interest.ops.runtime.jit import intrinsic, kernel, njit_no_refcount, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds

UNITS = 4 if HAS_AVX512 else 2  # of the state that one call computes, as many as fit the registers
LANES_PER_GROUP = 2 * LANES
_FLOAT = ir.FloatType()


class SharedGroup(NamedTuple):
    """Buffers of a group of candidates with one history.

    Attributes:
        gates: ``(T, G / H, H')`` what the behaviours add to the gates; H' is H rounded up to a multiple of UNITS.
        attention: ``(T, LANES_PER_GROUP)``.
        states: ``(2, H', LANES_PER_GROUP)`` states before and after a step.
    """

    gates: np.ndarray
    attention: np.ndarray
    states: np.ndarray


@kernel
def shared_groups(offsets, starts):
    """Return ``(g, 2)``: first segment and number of segments of each group of at most LANES_PER_GROUP with equal behaviours."""
    groups = np.empty((len(starts), 2), int64)
    count, first = 0, 0
    for b in range(1, len(starts) + 1):
        same = b < len(starts) and b - first < LANES_PER_GROUP and starts[b] == starts[first]
        if same and offsets[b + 1] - offsets[b] == offsets[first + 1] - offsets[first]:
            continue
        groups[count, 0], groups[count, 1] = first, b - first
        count, first = count + 1, b
    return groups[:count].copy() if len(starts) else groups[:0].copy()


@kernel
def pack_units(weight):
    """Return the weight ``(G, H)`` of the state as ``(H' / UNITS, H, G / H · UNITS)``: the columns of all gates of UNITS units, with zeros after the last."""
    width, hidden = weight.shape
    gates, blocks = width // hidden, (hidden + UNITS - 1) // UNITS
    packed = np.zeros((blocks, hidden, gates * UNITS), float32)
    for g in range(gates):
        for unit in range(hidden):
            row = weight[g * hidden + unit]
            for k in range(hidden):
                packed[unit // UNITS, k, g * UNITS + unit % UNITS] = row[k]
    return packed


@kernel
def gru_shared_forward(inputs, starts, groups, packed, variant, states, partition, partitions):
    """Compute the last state of each segment.

    Args:
        inputs: `gru_step.GRUInputs`, whose ``values (M, G)`` are what the inputs add to the gates; ``order`` is not used.
        starts: ``(B,)`` first row of each segment in ``values``.
        groups: result of `shared_groups`.
        packed: result of `pack_units`.
        variant: AGRU, AUGRU or AUGRU_CODE.
        states: OUT ``(B, H)``; 0 for an empty segment.
    """
    values, attention, offsets, _ = inputs
    first, last = partition_bounds(len(groups), partition, partitions)
    longest = 0
    for g in range(first, last):
        longest = max(longest, offsets[groups[g, 0] + 1] - offsets[groups[g, 0]])
    workspace = _workspace(longest, packed, states.shape[1])
    start = length = int64(-1)
    for g in range(first, last):
        segment, count = groups[g]
        if starts[segment] != start or offsets[segment + 1] - offsets[segment] != length:
            start, length = starts[segment], offsets[segment + 1] - offsets[segment]
            _pad_gates(values[start : start + length], states.shape[1], workspace.gates)
        _put_in_lanes(attention, offsets, segment, count, length, workspace.attention)
        workspace.states[0] = 0
        _advance(workspace, packed, variant, length, count)
        _take_from_lanes(workspace.states[length % 2], states[segment : segment + count])


@njit_strict
def _workspace(longest, packed, hidden):
    blocks, columns = packed.shape[0], packed.shape[2]
    gates, padded = columns // UNITS, blocks * UNITS
    states = aligned_buffer(2 * padded * LANES_PER_GROUP).reshape((2, padded, LANES_PER_GROUP))
    attention = aligned_buffer(longest * LANES_PER_GROUP).reshape((longest, LANES_PER_GROUP))
    return SharedGroup(np.zeros((longest, gates, padded), float32), attention, states)


@njit_no_refcount
def _pad_gates(values, hidden, out):
    for t in range(len(values)):
        for g in range(out.shape[1]):
            row, target = values[t, g * hidden : (g + 1) * hidden], out[t, g]
            for j in range(hidden):
                target[j] = row[j]


@njit_no_refcount
def _put_in_lanes(attention, offsets, segment, count, length, out):
    out[:length] = 0
    for lane in range(count):
        begin = offsets[segment + lane]
        for t in range(length):
            out[t, lane] = attention[begin + t]


@njit_no_refcount
def _take_from_lanes(lanes, out):
    for lane in range(len(out)):
        row = out[lane]
        for j in range(len(row)):
            row[j] = lanes[j, lane]


@njit_no_refcount
def _advance(group, packed, variant, length, count):
    """Take ``length`` steps; the states after step t are in ``states[(t + 1) % 2]``."""
    gates, attention, states = group
    unit_rows, inner = UNITS * states.strides[1], packed.shape[1]
    for t in range(length):
        before, after = (
            states.ctypes.data + (t % 2) * states.strides[0],
            states.ctypes.data + (1 - t % 2) * states.strides[0],
        )
        step = gates.ctypes.data + t * gates.strides[0]
        a = attention.ctypes.data + t * attention.strides[0]
        for j in range(len(packed)):
            left = (packed.ctypes.data + j * packed.strides[0], inner)
            state = (before, states.strides[1], before + j * unit_rows, after + j * unit_rows)
            _advance_units(variant, count, left, (step + 4 * UNITS * j, gates.strides[1]), a, state)


@njit_no_refcount
def _advance_units(variant, count, weights, gates, attention, states):
    if variant == AUGRU:
        if count > LANES:
            _augru(weights, gates, attention, states)
        else:
            _narrow_augru(weights, gates, attention, states)
    elif variant == AUGRU_CODE:
        _augru_code(weights, gates, attention, states)
    else:
        _agru(weights, gates, attention, states)


def _units_in_numpy(variant: int, lanes: int, weights, gates, attention, states) -> None:
    """The intrinsics below in NumPy."""
    count, (before, row, own, after) = 2 if variant == AGRU else 3, states
    matrix = array_at(weights[0], (weights[1], count, UNITS), (4 * count * UNITS, 4 * UNITS, 4))
    products = np.einsum("kgu,kl->gul", matrix, array_at(before, (weights[1], lanes), (row, 4)))
    inputs = array_at(gates[0], (count, UNITS, 1), (gates[1], 4, 0))
    a, old = array_at(attention, (lanes,), (4,)), array_at(own, (UNITS, lanes), (row, 4))
    soft = 1 / (1 + np.exp(-(inputs[:-1] + products[:-1])))
    candidate = np.tanh(inputs[-1] + soft[0] * products[-1])
    update = a if variant == AGRU else a * soft[1] if variant == AUGRU else soft[1] + a * (1 - soft[1])
    array_at(after, (UNITS, lanes), (row, 4))[:] = old + update * (candidate - old)


def _units_step(variant: int, vectors: int):
    """Return an intrinsic: one step of UNITS units for some vectors of candidates.

    Its arguments: address of the packed weights and number of states; address of the first unit's reset gate and bytes from gate to gate;
    address of the attention; addresses of all states before the step, bytes from state to state, and addresses of the units' states before
    and after it.
    """
    count = 2 if variant == AGRU else 3

    def python_version(*arguments):
        _units_in_numpy(variant, vectors * LANES, *arguments)

    @intrinsic(python_version)
    def step(typing, weights, gates, attention, states):
        def generate(context, builder, signature, arguments):
            operands = [_unpack(builder, of) for of in arguments]
            sums = _products(builder, count, vectors, *operands[:2], operands[3])
            for vector in range(vectors):
                own = [
                    [sums[(g * UNITS + unit) * vectors + vector] for unit in range(UNITS)]
                    for g in range(count)
                ]
                _store_new_states(builder, variant, vector, own, *operands[1:])
            return context.get_dummy_value()

        int64s = [types.UniTuple(types.int64, size) for size in (2, 2, 4)]
        return types.void(int64s[0], int64s[1], types.int64, int64s[2]), generate

    return step


def _unpack(builder, argument):
    if not isinstance(argument.type, ir.ArrayType):
        return argument
    return [builder.extract_value(argument, index) for index in range(argument.type.count)]


def _products(builder, count: int, vectors: int, weights, gates, states) -> list:
    """Return the sums of all gates and units; those of the candidate state are U h alone, the others with what the behaviours add."""
    sums = []
    for g in range(count):
        for unit in range(UNITS):
            start = ZERO if g == count - 1 else _gate_input(builder, gates, g, unit)
            sums += [start] * vectors

    def body(addresses, totals):
        left, right = addresses
        rows = [load(builder, builder.add(right, INT64(4 * LANES * i))) for i in range(vectors)]
        results: list = []
        for column in range(count * UNITS):
            factor = broadcast(builder, load(builder, builder.add(left, INT64(4 * column)), _FLOAT))
            results += [
                multiply_add(builder, totals[len(results) + i], factor, rows[i]) for i in range(vectors)
            ]
        return results

    streams = [(weights[0], INT64(4 * count * UNITS)), (states[0], states[1])]
    return loop(builder, sums, weights[1], streams, body)


def _gate_input(builder, gates, g: int, unit: int):
    address = builder.add(gates[0], builder.add(builder.mul(gates[1], INT64(g)), INT64(4 * unit)))
    return broadcast(builder, load(builder, address, _FLOAT))


def _store_new_states(
    builder, variant: int, vector: int, sums: Sequence[Sequence], gates, attention, states
) -> None:
    """Store ``h + z (h~ - h)``, with one division by the denominators of z and of h~."""
    half = constant(0.5)
    a = load(builder, builder.add(attention, INT64(4 * LANES * vector)))
    for unit in range(UNITS):
        row = builder.add(builder.mul(states[1], INT64(unit)), INT64(4 * LANES * vector))
        h = load(builder, builder.add(states[2], row))
        n, d = fraction_of_tanh(builder, builder.fmul(half, sums[0][unit]))
        reset = multiply_add(builder, half, builder.fmul(half, n), reciprocal(builder, d))
        inputs = _gate_input(builder, gates, len(sums) - 1, unit)
        n, d = fraction_of_tanh(builder, multiply_add(builder, inputs, reset, sums[-1][unit]))
        change = multiply_add(builder, n, builder.fneg(h), d)
        if variant == AGRU:
            update = a
        else:
            m, e = fraction_of_tanh(builder, builder.fmul(half, sums[1][unit]))
            opened, closed = (of(builder, e, m) for of in (_add, _subtract))  # twice u and 1 - u, times e
            if variant == AUGRU:
                update = builder.fmul(builder.fmul(half, a), opened)
            else:
                update = builder.fmul(half, multiply_add(builder, opened, a, closed))
            d = builder.fmul(d, e)
        new = multiply_add(builder, h, builder.fmul(update, change), reciprocal(builder, d))
        store(builder, new, builder.add(states[3], row))


def _add(builder, a, b):
    return builder.fadd(a, b)


def _subtract(builder, a, b):
    return builder.fsub(a, b)


_augru, _narrow_augru = _units_step(AUGRU, 2), _units_step(AUGRU, 1)
_augru_code, _agru = _units_step(AUGRU_CODE, 2), _units_step(AGRU, 2)
