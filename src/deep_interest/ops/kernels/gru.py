"""The loops of `gru.gru` for CPUs, compiled by numba: float32, no padding, states kept in the cache.

Some histories of similar length are walked together; the threads share these groups, so that the result does not depend
on their number.
"""

import numpy as np
from numba import njit
from numpy import float32, int64

from deep_interest.ops.kernels.gemm import matmul_add, matmul_bias, row_buffer
from deep_interest.ops.kernels.gemm_llvm import MR
from deep_interest.ops.kernels.gru_step import (
    GRU,
    attention_gradient,
    gru_last_step,
    gru_step,
    gru_step_backward,
)
from deep_interest.ops.kernels.vector import add, copy, partition_sums
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict

GROUP_SIZE = 2 * MR  # histories walked together at most


CHUNK_ROWS = 96  # rows of several steps that share a product; GROUP or more


@kernel
def gru_forward(
    inputs, rights, bias, attention, offsets, order, cell, states, activated, recalled, part, parts,
):  # fmt: skip
    """A part takes every so many-th group of histories; ``rights`` are the weights of inputs and of the state, as panels."""
    input_right, right = rights
    width, hidden = activated.shape[1], states.shape[1]
    inner = input_right.shape[1]  # 0 where the inputs are the gates
    state = np.zeros((GROUP_SIZE, hidden), float32)
    x, gates, products = (
        row_buffer(CHUNK_ROWS, inner),
        row_buffer(CHUNK_ROWS, width),
        row_buffer(GROUP_SIZE, width),
    )
    places = np.empty(GROUP_SIZE, int64)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        rows = min(size, len(order) - first)
        state[:] = 0
        at = known = 0  # rows of gates that are used up, and that there are
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            if at == known:
                at = 0
                known = _gates_of_next_steps(
                    inputs, input_right, bias, offsets, order, first, rows, t, x, gates
                )
            products[:rows] = 0
            matmul_add(state[:rows], right, products[:rows, :width])
            for r in range(rows):
                places[r] = offsets[order[first + r]] + t
            gru_step(cell, places[:rows], gates[at:], products, attention, activated, recalled, state, states)
            at += rows


@njit_no_refcount
def _gates_of_next_steps(inputs, right, bias, offsets, order, first, rows, t, x, gates):
    """Fill ``gates`` with those of the next steps of a group's first rows, as many as there is room for; returns how many."""
    known, inner = 0, right.shape[1]
    while rows and known + rows <= CHUNK_ROWS:
        for r in range(rows):
            row = inputs[offsets[order[first + r]] + t]
            if inner:
                copy(row, x[known + r])
            else:
                copy(row, gates[known + r])
        known += rows
        t += 1
        while rows and _length(offsets, order, first + rows - 1) <= t:
            rows -= 1
    if inner:
        matmul_bias(bias, x[:known, :inner], right, gates[:known, : len(bias)])
    return known


@kernel
def gru_last_forward(gates, right, attention, offsets, starts, order, cell, states, part, parts):
    """As `_forward`; a history that ends leaves its state and the group."""
    width, hidden = gates.shape[1], states.shape[1]
    state = np.zeros((GROUP_SIZE, hidden), float32)
    products = np.zeros((GROUP_SIZE, width), float32)
    now = np.empty(width, float32)
    of_gates, of_attention = np.empty(GROUP_SIZE, int64), np.empty(GROUP_SIZE, int64)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        most = min(size, len(order) - first)
        rows = most
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            products[:rows] = 0
            matmul_add(state[:rows], right, products[:rows])
            for r in range(rows):
                of_gates[r], of_attention[r] = starts[order[first + r]] + t, offsets[order[first + r]] + t
            gru_last_step(cell, of_gates[:rows], of_attention, gates, products, attention, now, state)
        for r in range(most):
            states[order[first + r]] = state[r]


@kernel
def gru_backward(
    last, grad_states, inputs, rights, attention, offsets, order, cell, states, activated, recalled,
    to_inputs, sums, grad_attention, part, parts,
):  # fmt: skip
    """As `_forward`; the gradients of the weights, in the order of `forward`, are added to ``sums[part]``."""
    input_right, right = rights
    width, hidden, inner = activated.shape[1], states.shape[1], inputs.shape[1]
    soft = width - hidden
    to_weights = _split_weights(partition_sums(sums, part), width, inner, hidden)
    flowing = np.zeros((GROUP_SIZE, hidden), float32)  # ∂L/∂h_t from later steps
    # gradients of a few steps: in [:soft] before the sigmoids, in [soft:width] of U^h h_{t-1}, in the last H before the tanh
    flows = row_buffer(CHUNK_ROWS, width + hidden)
    x, to_x, before = (
        row_buffer(CHUNK_ROWS, inner),
        row_buffer(CHUNK_ROWS, inner),
        row_buffer(CHUNK_ROWS, hidden),
    )
    places = np.empty(CHUNK_ROWS, int64)
    to_update = np.zeros((GROUP_SIZE, hidden), float32)
    kept = 0  # rows of flows that weights and inputs have yet to learn of
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        most = min(size, len(order) - first)
        rows = 0
        flowing[:] = 0
        for t in range(_length(offsets, order, first) - 1, -1, -1):
            while rows < most and _length(offsets, order, first + rows) > t:
                if last:
                    copy(grad_states[order[first + rows]], flowing[rows])
                rows += 1
            if kept + rows > CHUNK_ROWS:
                _add_weight_gradients(flows[:kept], before, x, to_weights)
                _input_gradients(flows[:kept], input_right, to_x, places, hidden, to_inputs)
                kept = 0
            for r in range(rows):
                places[kept + r] = offsets[order[first + r]] + t
            here = slice(kept, kept + rows)
            gru_step_backward(
                cell, t, last, places[here], grad_states, inputs, attention, states, activated, recalled,
                flowing, to_update, before[here], x[here], flows[here],
            )  # fmt: skip
            if cell != GRU:
                for r in range(rows):
                    p = places[kept + r]
                    grad_attention[p] = attention_gradient(
                        cell, to_update[r], activated[p, soft - hidden : soft]
                    )
            matmul_add(flows[kept : kept + rows, :width], right, flowing[:rows])
            kept += rows
    _add_weight_gradients(flows[:kept], before, x, to_weights)
    _input_gradients(flows[:kept], input_right, to_x, places, hidden, to_inputs)


@njit_strict
def _split_weights(numbers, width, inner, hidden):
    """The weights of inputs and state, and the bias, where they lie side by side."""
    first = width * inner
    last = first + width * hidden
    of_inputs = numbers[:first].reshape((width, inner))
    of_state = numbers[first:last].reshape((width, hidden))
    return of_inputs, of_state, numbers[last:]


@njit_no_refcount
def _add_weight_gradients(flows, before, x, totals):
    """Add to the gradients of the weights what some rows bring."""
    of_inputs, of_state, of_bias = totals
    rows, inner, (width, hidden) = len(flows), of_inputs.shape[1], of_state.shape
    soft, end = width - hidden, width + hidden
    matmul_add(flows[:, :width].T, before[:rows], of_state)
    if inner:
        matmul_add(flows[:, :soft].T, x[:rows], of_inputs[:soft])
        matmul_add(flows[:, width:end].T, x[:rows], of_inputs[soft:])
        for r in range(rows):
            add(flows[r, :soft], of_bias[:soft])
            add(flows[r, width:end], of_bias[soft:])


@njit_no_refcount
def _input_gradients(flows, right, to_x, places, hidden, to_inputs):
    """The gradients of some inputs, at their places."""
    rows, inner, width = len(flows), to_inputs.shape[1], right.shape[1]
    soft, end = width - hidden, width + hidden
    if len(right) == 0:  # they are the gates
        for r in range(rows):
            copy(flows[r, :soft], to_inputs[places[r], :soft])
            copy(flows[r, width:end], to_inputs[places[r], soft:])
        return
    to_x[:rows] = 0
    matmul_add(flows[:, :soft], right[:, :soft], to_x[:rows, :inner])
    matmul_add(flows[:, width:end], right[:, soft:], to_x[:rows, :inner])
    for r in range(rows):
        copy(to_x[r, :inner], to_inputs[places[r]])


@njit(inline="always")
def _group_size(histories, parts):
    """Histories of a group: all have about as many, and two threads as many groups."""
    groups = (histories + GROUP_SIZE - 1) // GROUP_SIZE
    if parts > 1:
        groups += groups % 2
    return max(1, (histories + groups - 1) // max(1, groups))


@njit(inline="always")
def _length(offsets, order, rank):
    sample = order[rank]
    return offsets[sample + 1] - offsets[sample]
