"""DIN's attention of many candidates to one history, for inference: each lane of a vector is a candidate.

With the first layer split as in `pair_layer.factorize`, the pre-activations of a behaviour e are ``W1 e + (W2 v + b) + W3 (e∘v)`` for all candidates v
at once: the candidates are multiplied with e, and W3 is the same for all. Behaviours that have some columns of e in common, such as the
category, share the products of these columns.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int64

from deep_interest.ops.kernels.activations import exp_of_negative
from deep_interest.ops.kernels.gemm import aligned_buffer, matmul_add, pack
from deep_interest.ops.kernels.lane_layers import (
    LANES_PER_GROUP,
    LaneLayer,
    apply_and_sum,
    apply_layer,
    pack_layer,
)
from deep_interest.ops.kernels.mlp_chunk import LINEAR, layer_at
from deep_interest.ops.kernels.pair_layer import factorize
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict
from deep_interest.ops.runtime.parallel import partition_bounds


class LaneUnit(NamedTuple):
    """An activation unit of two hidden layers, packed.

    Attributes:
        behaviors: packed W1ᵀ ``(K, O)`` for `gemm.matmul_add`.
        candidates: W2, with the bias of the first layer.
        common, other: the columns of W3 that behaviours have in common, and the others.
        second: second layer.
        last: ``(O',)`` weight of the output.
        last_bias: ``(1,)``.
    """

    behaviors: np.ndarray
    candidates: LaneLayer
    common: LaneLayer
    other: LaneLayer
    second: LaneLayer
    last: np.ndarray
    last_bias: np.ndarray


class _Workspace(NamedTuple):
    """Buffers of a group of candidates; lane matrices but for the first.

    Attributes:
        rows: ``(T, O)`` W1 e of each behaviour.
        candidates: v, the common columns after the others.
        scaled: v times columns of a behaviour.
        constants: W2 v + b.
        shared: the same with the products of the common columns.
        zeros: zeros.
        hidden: first hidden layer.
        scores: ``(T, LANES_PER_GROUP)``.
    """

    rows: np.ndarray
    candidates: np.ndarray
    scaled: np.ndarray
    constants: np.ndarray
    shared: np.ndarray
    zeros: np.ndarray
    hidden: np.ndarray
    scores: np.ndarray


@kernel
def pack_unit(params, width, columns):
    """Return the `LaneUnit` of `mlp_chunk.MLPParams`.

    Args:
        params: two hidden layers and an output.
        width: K, width of a behaviour.
        columns: common columns, and the others.
    """
    weight, bias, slope = layer_at(params, 0)
    w1, w2, w3 = factorize(weight, width)
    second, last = layer_at(params, 1), layer_at(params, 2)
    common, other = columns
    packed = pack_layer(second[0], second[1], second[2], params.activations[1])
    factors = np.zeros(len(packed.bias), float32)
    factors[: params.widths[2]] = last[0][0]
    nothing = bias[:0]
    order = np.concatenate((other, common))
    return LaneUnit(
        pack(w1.T), pack_layer(w2[:, order], bias, nothing, LINEAR), pack_layer(w3[:, common], nothing, nothing, LINEAR),
        pack_layer(w3[:, other], nothing, slope, params.activations[0]), packed, factors, last[1],
    )  # fmt: skip


@kernel
def attention_pool_lanes(pairs, codes, columns, groups, unit, scale, weights, pooled, partition, partitions):
    """Weight the behaviours of each segment by their scores, and sum them.

    Args:
        pairs: `pair_layer.Pairs`.
        codes: ``(M,)`` int64; behaviours with equal codes have equal common columns.
        columns: common columns, and the others.
        groups: ``(g, 2)`` first segment and number of segments with the same behaviours, see `gru_lanes.shared_groups`.
        unit: `LaneUnit`.
        scale: scale of the softmax over the scores; 0 for none.
        weights: OUT ``(N, 1)`` what the behaviours are multiplied by.
        pooled: OUT ``(B, K)``.
    """
    values, queries, offsets, starts = pairs
    first, last = partition_bounds(len(groups), partition, partitions)
    longest = 0
    for g in range(first, last):
        longest = max(longest, offsets[groups[g, 0] + 1] - offsets[groups[g, 0]])
    workspace = _workspace(unit, longest, values.shape[1])
    start = length = int64(-1)
    order, packed = np.empty(0, int64), pack(values[:0])
    for g in range(first, last):
        segment, count = groups[g]
        if starts[segment] != start or offsets[segment + 1] - offsets[segment] != length:
            start, length = starts[segment], offsets[segment + 1] - offsets[segment]
            order = np.argsort(codes[start : start + length], kind="mergesort")
            workspace.rows[:length] = 0
            matmul_add(values[start : start + length], unit.behaviors, workspace.rows[:length])
            packed = pack(values[start : start + length])
        _put_in_lanes(queries[segment : segment + count], columns, workspace.candidates)
        apply_layer(
            unit.candidates,
            unit.candidates.bias,
            workspace.candidates,
            workspace.zeros,
            count,
            workspace.constants,
        )
        _score(
            values[start : start + length],
            codes[start : start + length],
            order,
            columns,
            unit,
            count,
            workspace,
        )
        _take_from_lanes(workspace.scores, offsets[segment], length, count, unit.last_bias[0], weights)
        rows = weights[offsets[segment] : offsets[segment + count]].reshape((count, length))
        if scale and length:
            for r in range(count):
                _softmax_in_place(rows[r], scale)
        pooled[segment : segment + count] = 0
        matmul_add(rows, packed, pooled[segment : segment + count])


@njit_strict
def _workspace(unit, longest, width):
    outputs = len(unit.candidates.bias)
    return _Workspace(
        np.empty((longest, outputs), float32), _lane_zeros(width), _lane_zeros(width), _lane_zeros(outputs),
        _lane_zeros(outputs), _lane_zeros(max(outputs, len(unit.last))), _lane_zeros(outputs), _lane_zeros(longest),
    )  # fmt: skip


@njit_strict
def _lane_zeros(rows):
    buffer = aligned_buffer(rows * LANES_PER_GROUP).reshape((rows, LANES_PER_GROUP))
    buffer[:] = 0
    return buffer


@njit_no_refcount
def _put_in_lanes(queries, columns, out):
    common, other = columns
    for lane in range(len(queries)):
        query = queries[lane]
        for k in range(len(other)):
            out[k, lane] = query[other[k]]
        for k in range(len(common)):
            out[len(other) + k, lane] = query[common[k]]


@njit_no_refcount
def _score(values, codes, order, columns, unit, count, workspace):
    """Write the scores of all behaviours, without the last bias."""
    common, other = columns
    candidates, scaled, shared = workspace.candidates, workspace.scaled, workspace.shared
    for index in range(len(order)):
        t = order[index]
        value, total = values[t], workspace.scores[t]
        if index == 0 or codes[t] != codes[order[index - 1]]:
            _scale(value, common, candidates[len(other) :], scaled)
            apply_layer(unit.common, unit.common.bias, scaled, workspace.constants, count, shared)
        _scale(value, other, candidates, scaled)
        apply_layer(unit.other, workspace.rows[t], scaled, shared, count, workspace.hidden)
        total[:] = 0
        apply_and_sum(unit.second, workspace.hidden, workspace.zeros, count, unit.last, total)


@njit_no_refcount
def _scale(value, columns, candidates, out):
    for k in range(len(columns)):
        factor, row, target = value[columns[k]], candidates[k], out[k]
        for lane in range(LANES_PER_GROUP):
            target[lane] = factor * row[lane]


@njit_no_refcount
def _take_from_lanes(scores, begin, length, count, bias, weights):
    for lane in range(count):
        for t in range(length):
            weights[begin + lane * length + t, 0] = scores[t, lane] + bias


@njit_no_refcount
def _softmax_in_place(scores, scale):
    top, total = scores[0], float32(0)
    for t in range(1, len(scores)):
        top = max(top, scores[t])
    for t in range(len(scores)):
        scores[t] = exp_of_negative(scale * (scores[t] - top))
    for t in range(len(scores)):
        total += scores[t]
    for t in range(len(scores)):
        scores[t] /= total
