"""Kernels of the GRU over jagged histories: no padding, states kept in the cache.

Histories are sorted by length, and groups of up to GROUP_SIZE similar ones advance together, so that each step is a
product of a small matrix of states. A partition has every so many-th group, whatever the number of threads.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy import float32, int64

from deep_interest.ops.kernels.gemm import matmul_add, matmul_bias, row_buffer
from deep_interest.ops.kernels.gemm_llvm import MR
from deep_interest.ops.kernels.gru_step import (
    GRU,
    StepGrads,
    attention_grad,
    gru_step,
    gru_step_backward,
    gru_step_without_saving,
)
from deep_interest.ops.kernels.vector import add, copy, partition_sums
from deep_interest.ops.runtime.jit import kernel, njit_no_refcount, njit_strict

GROUP_SIZE = 2 * MR  # most histories of a group
CHUNK_ROWS = 96  # rows of several steps that share a product; at least GROUP_SIZE


class GRUGrads(NamedTuple):
    """Gradients of `gru_forward`.

    Attributes:
        values: ``(N, I)``, or ``(N, G)`` if the inputs are the gates.
        params: ``(partitions, P)`` of the weights of inputs and state and of the bias, see `partition_sums`.
        attention: ``(N,)`` or empty.
    """

    values: np.ndarray
    params: np.ndarray
    attention: np.ndarray


@kernel
def gru_forward(inputs, packed, bias, variant, saved, partition, partitions):
    """Compute all states.

    Args:
        inputs: `GRUInputs`.
        packed: transposed weights ``(I, G)`` of the inputs and ``(H, G)`` of the state; I = 0 if the inputs are
            the gates.
        bias: ``(G,)``.
        variant: GRU, AGRU, AUGRU or AUGRU_CODE.
        saved: OUT `GRUSaved`.
    """
    _, attention, offsets, order = inputs
    packed_inputs, packed_state = packed
    width, hidden = saved.gates.shape[1], saved.states.shape[1]
    inner = packed_inputs.shape[1]
    state = np.zeros((GROUP_SIZE, hidden), float32)
    x, gates = row_buffer(CHUNK_ROWS, inner), row_buffer(CHUNK_ROWS, width)
    products = row_buffer(GROUP_SIZE, width)
    positions = np.empty(GROUP_SIZE, int64)
    size = _group_size(len(order), partitions)
    for first in range(partition * size, len(order), partitions * size):
        rows = min(size, len(order) - first)
        state[:] = 0
        used = available = 0  # rows of ``gates``
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            if used == available:
                used = 0
                available = _gates_of_next_steps(inputs, packed_inputs, bias, first, rows, t, x, gates)
            products[:rows] = 0
            matmul_add(state[:rows], packed_state, products[:rows, :width])
            for r in range(rows):
                positions[r] = offsets[order[first + r]] + t
            gru_step(variant, positions[:rows], gates[used:], products, attention, saved, state)
            used += rows


@njit_no_refcount
def _gates_of_next_steps(inputs, packed_inputs, bias, first, rows, t, x, gates):
    """Compute what the inputs of a group add to the gates, for as many steps as fit into ``gates``.

    Args:
        inputs, packed_inputs, bias: as in `gru_forward`.
        first, rows: first history of the group, and number of histories that have step t.
        t: first step.
        x: row buffer for the inputs.
        gates: OUT row buffer.

    Returns:
        The number of rows of ``gates`` that are filled.
    """
    values, _, offsets, order = inputs
    filled, inner = 0, packed_inputs.shape[1]
    while rows and filled + rows <= CHUNK_ROWS:
        for r in range(rows):
            row = values[offsets[order[first + r]] + t]
            if inner:
                copy(row, x[filled + r])
            else:
                copy(row, gates[filled + r])
        filled += rows
        t += 1
        while rows and _length(offsets, order, first + rows - 1) <= t:
            rows -= 1
    if inner:
        matmul_bias(bias, x[:filled, :inner], packed_inputs, gates[:filled, : len(bias)])
    return filled


@kernel
def gru_last_forward(inputs, starts, packed_state, variant, states, partition, partitions):
    """Compute the last states only; a history that ends leaves its state and the group.

    Args:
        inputs: `GRUInputs`, whose ``values (M, G)`` are what the inputs add to the gates.
        starts: ``(B,)`` first row of each history in ``values``, which several histories may share.
        packed_state: transposed weight ``(H, G)`` of the state.
        variant: GRU, AGRU, AUGRU or AUGRU_CODE.
        states: OUT ``(B, H)``; 0 for an empty history.
    """
    gates, attention, offsets, order = inputs
    width, hidden = gates.shape[1], states.shape[1]
    state = np.zeros((GROUP_SIZE, hidden), float32)
    products = np.zeros((GROUP_SIZE, width), float32)
    activated = np.empty(width, float32)
    gate_positions, positions = np.empty(GROUP_SIZE, int64), np.empty(GROUP_SIZE, int64)
    size = _group_size(len(order), partitions)
    for first in range(partition * size, len(order), partitions * size):
        most = min(size, len(order) - first)
        rows = most
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            products[:rows] = 0
            matmul_add(state[:rows], packed_state, products[:rows])
            for r in range(rows):
                history = order[first + r]
                gate_positions[r], positions[r] = starts[history] + t, offsets[history] + t
            gru_step_without_saving(
                variant, gate_positions[:rows], positions, gates, products, attention, activated, state
            )
        for r in range(most):
            states[order[first + r]] = state[r]


@kernel
def gru_backward(grad_states, last, inputs, packed, variant, saved, grads, partition, partitions):
    """Compute the gradients of `gru_forward`.

    Args:
        grad_states: ``(N, H)``; or ``(B, H)`` if only the last states have gradients.
        last: whether only the last states have gradients.
        inputs, variant, saved: as there; ``inputs.values`` is empty if they are the gates.
        packed: weights ``(G, I)`` of the inputs and ``(G, H)`` of the state.
        grads: OUT `GRUGrads`.
    """
    _, _, offsets, order = inputs
    packed_inputs, packed_state = packed
    width, hidden, inner = saved.gates.shape[1], saved.states.shape[1], inputs.values.shape[1]
    soft = width - hidden
    grad_weights = _split_weights(partition_sums(grads.params, partition), width, inner, hidden)
    grad_state = np.zeros((GROUP_SIZE, hidden), float32)
    steps = StepGrads(
        row_buffer(CHUNK_ROWS, hidden), row_buffer(CHUNK_ROWS, inner), row_buffer(CHUNK_ROWS, width + hidden)
    )
    grad_x, positions = row_buffer(CHUNK_ROWS, inner), np.empty(CHUNK_ROWS, int64)
    grad_update = np.zeros((GROUP_SIZE, hidden), float32)
    grad_all_states = grad_states[:0] if last else grad_states
    pending = 0  # rows of ``steps`` that the gradients of weights and inputs do not include yet
    size = _group_size(len(order), partitions)
    for first in range(partition * size, len(order), partitions * size):
        most = min(size, len(order) - first)
        rows = 0
        grad_state[:] = 0
        for t in range(_length(offsets, order, first) - 1, -1, -1):
            while rows < most and _length(offsets, order, first + rows) > t:
                if last:
                    copy(grad_states[order[first + rows]], grad_state[rows])
                rows += 1
            if pending + rows > CHUNK_ROWS:
                _add_weight_grads(steps, pending, grad_weights)
                _input_grads(steps.gates[:pending], packed_inputs, grad_x, positions, hidden, grads.values)
                pending = 0
            for r in range(rows):
                positions[pending + r] = offsets[order[first + r]] + t
            end = pending + rows
            step = StepGrads(steps.previous[pending:end], steps.x[pending:end], steps.gates[pending:end])
            gru_step_backward(
                variant,
                t,
                positions[pending:end],
                grad_all_states,
                inputs,
                saved,
                grad_state,
                grad_update,
                step,
            )
            if variant != GRU:
                for r in range(rows):
                    p = positions[pending + r]
                    update = saved.gates[p, soft - hidden : soft]
                    grads.attention[p] = attention_grad(variant, grad_update[r], update)
            matmul_add(steps.gates[pending:end, :width], packed_state, grad_state[:rows])
            pending = end
    _add_weight_grads(steps, pending, grad_weights)
    _input_grads(steps.gates[:pending], packed_inputs, grad_x, positions, hidden, grads.values)


@njit_strict
def _split_weights(params, width, inner, hidden):
    """Return views of the weights of inputs ``(G, I)`` and state ``(G, H)`` and of the bias in one vector."""
    first = width * inner
    last = first + width * hidden
    return params[:first].reshape((width, inner)), params[first:last].reshape((width, hidden)), params[last:]


@njit_no_refcount
def _add_weight_grads(steps, rows, grads):
    """Add to the gradients of the weights the contributions of the first rows of `StepGrads`."""
    grad_inputs, grad_state, grad_bias = grads
    inner, (width, hidden) = grad_inputs.shape[1], grad_state.shape
    soft, end = width - hidden, width + hidden
    gates = steps.gates[:rows]
    matmul_add(gates[:, :width].T, steps.previous[:rows], grad_state)
    if inner:
        matmul_add(gates[:, :soft].T, steps.x[:rows], grad_inputs[:soft])
        matmul_add(gates[:, width:end].T, steps.x[:rows], grad_inputs[soft:])
        for r in range(rows):
            add(gates[r, :soft], grad_bias[:soft])
            add(gates[r, width:end], grad_bias[soft:])


@njit_no_refcount
def _input_grads(grad_gates, packed_inputs, grad_x, positions, hidden, grad_values):
    """Compute the gradients of the inputs at some positions.

    Args:
        grad_gates: ``gates`` of `StepGrads`.
        packed_inputs: weight ``(G, I)`` of the inputs; empty if these are the gates.
        grad_x: row buffer.
        positions: positions of the rows.
        hidden: H.
        grad_values: OUT ``(N, I)`` or ``(N, G)``.
    """
    rows, inner, width = len(grad_gates), grad_values.shape[1], packed_inputs.shape[1]
    soft, end = width - hidden, width + hidden
    if len(packed_inputs) == 0:
        for r in range(rows):
            copy(grad_gates[r, :soft], grad_values[positions[r], :soft])
            copy(grad_gates[r, width:end], grad_values[positions[r], soft:])
        return
    grad_x[:rows] = 0
    matmul_add(grad_gates[:, :soft], packed_inputs[:, :soft], grad_x[:rows, :inner])
    matmul_add(grad_gates[:, width:end], packed_inputs[:, soft:], grad_x[:rows, :inner])
    for r in range(rows):
        copy(grad_x[r, :inner], grad_values[positions[r]])


@njit(inline="always")
def _group_size(histories, partitions):
    """Return the histories of a group: about as many in all groups, and an even number of groups for two threads."""
    groups = (histories + GROUP_SIZE - 1) // GROUP_SIZE
    if partitions > 1:
        groups += groups % 2
    return max(1, (histories + groups - 1) // max(1, groups))


@njit(inline="always")
def _length(offsets, order, rank):
    """Return the length of the history at a rank of the order."""
    history = order[rank]
    return offsets[history + 1] - offsets[history]
