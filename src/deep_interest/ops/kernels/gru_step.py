"""One step of a GRU for a group of histories, forward and backward: what `gru_cpu` does between its matrix products."""

from numba import njit
from numpy import float32

from deep_interest.ops.kernels.activations import sigmoid, tanh
from deep_interest.ops.kernels.vector import add, copy
from deep_interest.ops.runtime.jit import njit_no_refcount

GRU, AGRU, AUGRU, AUGRU_CODE = range(4)


@njit_no_refcount
def gru_step(cell, places, gates, products, attention, activated, recalled, state, states):
    """One step of a group's first rows, whose places these are."""
    width, hidden = activated.shape[1], state.shape[1]
    for r in range(len(places)):
        p = places[r]
        a = attention[p] if cell != GRU else float32(1)
        _step_row(cell, gates[r], products[r], a, activated[p], state[r])
        copy(products[r, width - hidden : width], recalled[p])
        copy(state[r], states[p])


@njit_no_refcount
def gru_last_step(cell, of_gates, of_attention, gates, products, attention, now, state):
    """One step of a group's first rows, whose gates and attention are at these places."""
    for r in range(len(of_gates)):
        a = attention[of_attention[r]] if cell != GRU else float32(1)
        _step_row(cell, gates[of_gates[r]], products[r], a, now, state[r])


@njit_no_refcount
def gru_step_backward(
    cell, t, last, places, grad_states, inputs, attention, states, activated, recalled, flowing, to_update, before, x, flows
):  # fmt: skip
    """`move_rows` back, which also fills what the gradients of the weights will need: the states before and the inputs."""
    for r in range(len(places)):
        p, old = places[r], before[r]
        if t:
            copy(states[p - 1], old)
        else:
            for j in range(len(old)):
                old[j] = 0
        if inputs.shape[1]:
            copy(inputs[p], x[r])
        if not last:
            add(grad_states[p], flowing[r])
        a = attention[p] if cell != GRU else float32(0)
        _step_row_backward(cell, activated[p], recalled[p], a, old, flowing[r], to_update[r], flows[r])


@njit(inline="always")
def _step_row(cell, given, product, a, now, state):
    """One step of one history: its gates, activated, are left in ``now``."""
    hidden = len(state)
    soft = len(now) - hidden
    for j in range(soft):
        now[j] = sigmoid(given[j] + product[j])
    reset, gate, candidate = now[:hidden], now[soft - hidden : soft], now[soft:]
    given_candidate, recalled = given[soft:], product[soft:]
    for j in range(hidden):
        candidate[j] = tanh(given_candidate[j] + reset[j] * recalled[j])
    for j in range(hidden):
        state[j] += _update_gate(cell, gate[j], a) * (candidate[j] - state[j])


@njit(inline="always")
def _step_row_backward(cell, now, recalled, a, old, flow, to_update, to_gates):
    """`_move` back: ``flow`` comes as ∂L/∂h_t and is left as what of it passes the gates by; fills the gates' gradients, and z_t's."""
    hidden = len(recalled)
    soft = len(now) - hidden
    reset, gate, candidate = now[:hidden], now[soft - hidden : soft], now[soft:]
    to_reset, to_recalled = to_gates[:hidden], to_gates[soft : soft + hidden]
    to_candidate, one = to_gates[soft + hidden : soft + 2 * hidden], float32(1)
    # few arrays a loop: a compiler proves that they do not overlap, and vectorises
    for j in range(hidden):
        to_update[j] = flow[j] * (candidate[j] - old[j])
    for j in range(hidden):
        z = _update_gate(cell, gate[j], a)
        to_candidate[j] = flow[j] * z * (one - candidate[j] * candidate[j])
        flow[j] *= one - z
    for j in range(hidden):
        to_recalled[j] = to_candidate[j] * reset[j]
    for j in range(hidden):
        to_reset[j] = to_recalled[j] * recalled[j] * (one - reset[j])
    if cell != AGRU:
        _update_gate_gradient(cell, to_update, gate, a, to_gates[hidden:soft])


@njit(inline="always")
def attention_gradient(cell, to_update, gate):
    """``∂L/∂a_t``."""
    total = float32(0)
    for j in range(len(gate)):
        share = float32(1) if cell == AGRU else gate[j] if cell == AUGRU else float32(1) - gate[j]
        total += to_update[j] * share
    return total


@njit(inline="always")
def _update_gate_gradient(cell, to_update, gate, a, to_gate):
    """The gradient of the update gate before its sigmoid."""
    scale = float32(1) if cell == GRU else a if cell == AUGRU else float32(1) - a
    for j in range(len(gate)):
        to_gate[j] = scale * to_update[j] * gate[j] * (float32(1) - gate[j])


@njit(inline="always")
def _update_gate(cell, gate, a):
    """``z_t``, the share of the candidate state in the new state."""
    if cell == GRU:
        return gate
    if cell == AGRU:
        return a
    if cell == AUGRU:
        return a * gate
    return gate + a * (float32(1) - gate)
