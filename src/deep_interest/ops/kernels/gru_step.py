"""One step of a GRU for a group of histories, forward and backward, between the matrix products of `kernels.gru`.

Equations: `models.recurrent.GRU`. The gates of a history are stored as reset, update (not for AGRU) and candidate
state, side by side.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy import float32

from deep_interest.ops.kernels.activations import sigmoid, tanh
from deep_interest.ops.kernels.vector import add, copy
from deep_interest.ops.runtime.jit import njit_no_refcount

GRU, AGRU, AUGRU, AUGRU_CODE = range(4)  # in the order of `gru.VARIANTS`


class GRUInputs(NamedTuple):
    """The data of a GRU.

    Attributes:
        values: ``(N, I)`` inputs; or ``(N, G)`` what they add to the gates, bias included.
        attention: ``(N,)``; empty for a GRU.
        offsets: ``(B + 1,)`` segments of the histories.
        order: ``(B,)`` histories by descending length.
    """

    values: np.ndarray
    attention: np.ndarray
    offsets: np.ndarray
    order: np.ndarray


class GRUSaved(NamedTuple):
    """What the forward pass keeps of every step for the backward pass.

    Attributes:
        states: ``(N, H)`` h_t.
        gates: ``(N, G)`` gates after their activations.
        recurrent: ``(N, H)`` U^h h_{t-1}.
    """

    states: np.ndarray
    gates: np.ndarray
    recurrent: np.ndarray


class StepGrads(NamedTuple):
    """Rows that the backward pass collects over several steps for one product with the weights.

    Attributes:
        previous: h_{t-1}.
        x: inputs.
        gates: gradients: of the reset and update gates before their sigmoids, of U^h h_{t-1}, of the candidate
            before its tanh.
    """

    previous: np.ndarray
    x: np.ndarray
    gates: np.ndarray


@njit_no_refcount
def gru_step(variant, positions, gates, products, attention, saved, state):
    """One step of the first rows of a group.

    Args:
        variant: GRU, AGRU, AUGRU or AUGRU_CODE.
        positions: ``(r,)`` positions of the step in the inputs.
        gates: ``(r, G)`` what the inputs add to the gates.
        products: ``(r, G)`` U h_{t-1}.
        attention: ``(N,)`` or empty.
        saved: OUT `GRUSaved`.
        state: INOUT ``(r, H)``.
    """
    width, hidden = saved.gates.shape[1], state.shape[1]
    for r in range(len(positions)):
        p = positions[r]
        a = attention[p] if variant != GRU else float32(1)
        _step_row(variant, gates[r], products[r], a, saved.gates[p], state[r])
        copy(products[r, width - hidden : width], saved.recurrent[p])
        copy(state[r], saved.states[p])


@njit_no_refcount
def gru_step_without_saving(variant, gate_positions, positions, gates, products, attention, activated, state):
    """As `gru_step`, with gates ``(M, G)`` that several histories may share.

    Args:
        gate_positions: ``(r,)`` positions of the step in ``gates``.
        positions: ``(r,)`` positions of the step in ``attention``.
        activated: ``(G,)`` scratch buffer.
    """
    for r in range(len(gate_positions)):
        a = attention[positions[r]] if variant != GRU else float32(1)
        _step_row(variant, gates[gate_positions[r]], products[r], a, activated, state[r])


@njit_no_refcount
def gru_step_backward(variant, t, positions, grad_states, inputs, saved, grad_state, grad_update, step):
    """Gradients of `gru_step`.

    Args:
        variant, positions, saved: as there.
        t: index of the step in its history.
        grad_states: ``(N, H)`` gradients of all states; empty if only last states have gradients.
        inputs: `GRUInputs`; ``values`` is empty if they are the gates.
        grad_state: INOUT ``(r, H)`` ∂L/∂h_t from later steps, then what bypasses the gates of ∂L/∂h_{t-1}.
        grad_update: OUT ``(r, H)`` gradients of z_t.
        step: OUT `StepGrads`.
    """
    for r in range(len(positions)):
        p, previous = positions[r], step.previous[r]
        if t:
            copy(saved.states[p - 1], previous)
        else:
            for j in range(len(previous)):
                previous[j] = 0
        if inputs.values.shape[1]:
            copy(inputs.values[p], step.x[r])
        if len(grad_states):
            add(grad_states[p], grad_state[r])
        a = inputs.attention[p] if variant != GRU else float32(0)
        _step_row_backward(
            variant, saved.gates[p], saved.recurrent[p], a, previous, grad_state[r], grad_update[r], step.gates[r]
        )  # fmt: skip


@njit(inline="always")
def _step_row(variant, inputs, product, a, activated, state):
    """One step of one history; OUT ``activated``, its gates after their activations, INOUT ``state``."""
    hidden = len(state)
    soft = len(activated) - hidden
    for j in range(soft):
        activated[j] = sigmoid(inputs[j] + product[j])
    reset, update, candidate = activated[:hidden], activated[soft - hidden : soft], activated[soft:]
    candidate_inputs, recurrent = inputs[soft:], product[soft:]
    for j in range(hidden):
        candidate[j] = tanh(candidate_inputs[j] + reset[j] * recurrent[j])
    for j in range(hidden):
        state[j] += _update_gate(variant, update[j], a) * (candidate[j] - state[j])


@njit(inline="always")
def _step_row_backward(variant, activated, recurrent, a, previous, grad_state, grad_update, grad_gates):
    """Gradients of `_step_row`.

    INOUT ``grad_state``, OUT ``grad_update`` and ``grad_gates``, as in `gru_step_backward`.
    """
    hidden = len(recurrent)
    soft = len(activated) - hidden
    reset, update, candidate = activated[:hidden], activated[soft - hidden : soft], activated[soft:]
    grad_reset, grad_recurrent = grad_gates[:hidden], grad_gates[soft : soft + hidden]
    grad_candidate, one = grad_gates[soft + hidden : soft + 2 * hidden], float32(1)
    # few arrays per loop: LLVM then proves at run time that they do not overlap, and vectorises
    for j in range(hidden):
        grad_update[j] = grad_state[j] * (candidate[j] - previous[j])
    for j in range(hidden):
        z = _update_gate(variant, update[j], a)
        grad_candidate[j] = grad_state[j] * z * (one - candidate[j] * candidate[j])
        grad_state[j] *= one - z
    for j in range(hidden):
        grad_recurrent[j] = grad_candidate[j] * reset[j]
    for j in range(hidden):
        grad_reset[j] = grad_recurrent[j] * recurrent[j] * (one - reset[j])
    if variant != AGRU:
        _update_gate_grad(variant, grad_update, update, a, grad_gates[hidden:soft])


@njit(inline="always")
def attention_grad(variant, grad_update, update):
    """Return ``∂L/∂a_t``."""
    total = float32(0)
    for j in range(len(update)):
        factor = float32(1) if variant == AGRU else update[j] if variant == AUGRU else float32(1) - update[j]
        total += grad_update[j] * factor
    return total


@njit(inline="always")
def _update_gate_grad(variant, grad_update, update, a, grad_gate):
    """Gradient of the update gate before its sigmoid; OUT ``grad_gate``."""
    scale = float32(1) if variant == GRU else a if variant == AUGRU else float32(1) - a
    for j in range(len(update)):
        grad_gate[j] = scale * grad_update[j] * update[j] * (float32(1) - update[j])


@njit(inline="always")
def _update_gate(variant, update, a):
    """Return ``z_t``, the weight of the candidate state in the new state."""
    if variant == GRU:
        return update
    if variant == AGRU:
        return a
    if variant == AUGRU:
        return a * update
    return update + a * (float32(1) - update)
