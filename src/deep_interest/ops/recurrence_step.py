"""One step of one history of a GRU, forward and backward: what `recurrence_cpu` does between its matrix products."""

from numba import float32, njit

from deep_interest.ops.activations import sigmoid, tanh

GRU, AGRU, AUGRU, AUGRU_CODE = range(4)


@njit(inline="always")
def move(cell, given, product, a, now, state):
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
        state[j] += _update(cell, gate[j], a) * (candidate[j] - state[j])


@njit(inline="always")
def move_back(cell, now, recalled, a, old, flow, to_update, to_gates):
    """`move` back: ``flow`` comes as ∂L/∂h_t and is left as what of it passes the gates by; fills the gates' gradients, and z_t's."""
    hidden = len(recalled)
    soft = len(now) - hidden
    reset, gate, candidate = now[:hidden], now[soft - hidden : soft], now[soft:]
    to_reset, to_recalled = to_gates[:hidden], to_gates[soft : soft + hidden]
    to_candidate, one = to_gates[soft + hidden : soft + 2 * hidden], float32(1)
    # few arrays a loop: a compiler proves that they do not overlap, and vectorises
    for j in range(hidden):
        to_update[j] = flow[j] * (candidate[j] - old[j])
    for j in range(hidden):
        z = _update(cell, gate[j], a)
        to_candidate[j] = flow[j] * z * (one - candidate[j] * candidate[j])
        flow[j] *= one - z
    for j in range(hidden):
        to_recalled[j] = to_candidate[j] * reset[j]
    for j in range(hidden):
        to_reset[j] = to_recalled[j] * recalled[j] * (one - reset[j])
    if cell != AGRU:
        _to_gate(cell, to_update, gate, a, to_gates[hidden:soft])


@njit(inline="always")
def to_attention(cell, to_update, gate):
    """``∂L/∂a_t``."""
    total = float32(0)
    for j in range(len(gate)):
        share = float32(1) if cell == AGRU else gate[j] if cell == AUGRU else float32(1) - gate[j]
        total += to_update[j] * share
    return total


@njit(inline="always")
def _to_gate(cell, to_update, gate, a, to_gate):
    """The gradient of the update gate before its sigmoid."""
    scale = float32(1) if cell == GRU else a if cell == AUGRU else float32(1) - a
    for j in range(len(gate)):
        to_gate[j] = scale * to_update[j] * gate[j] * (float32(1) - gate[j])


@njit(inline="always")
def _update(cell, gate, a):
    """``z_t``, the share of the candidate state in the new state."""
    if cell == GRU:
        return gate
    if cell == AGRU:
        return a
    if cell == AUGRU:
        return a * gate
    return gate + a * (float32(1) - gate)
