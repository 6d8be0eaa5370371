"""The loops of `recurrence.recurrence` for CPUs, compiled by numba: float32, no padding, states kept in the cache.

Some histories of similar length are walked together; the threads share these groups, so that the result does not depend
on their number.
"""

import numpy as np
from numba import float32, njit
from torch import Tensor

from deep_interest.ops.activations import sigmoid, tanh
from deep_interest.ops.compiled import arrays, compiled, parts_of, run, share
from deep_interest.ops.tiles import COLUMNS, ROWS, add_product, panel_count, panels, panels_of, rows_of

GRU, AGRU, AUGRU, AUGRU_CODE = range(4)
GROUP = 2 * ROWS  # histories walked together at most
CHUNK = 96  # rows that stay in the cache together


def forward(
    gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, order: Tensor, cell: int,
    states: Tensor, activated: Tensor, recalled: Tensor,
) -> None:  # fmt: skip
    """Fill the states, and what `backward` needs to know of them.

    Args:
        gates: ``(N, G)`` what the inputs add to the gates, bias included.
        weight: ``(G, H)`` the state's weights.
        attention: ``(N,)``, or empty for a GRU.
        offsets: ``(B + 1,)``.
        order: ``(B,)`` samples by falling length.
        cell: GRU, AGRU, AUGRU or AUGRU_CODE.
        states: ``(N, H)``.
        activated: ``(N, G)`` reset, update where there is one, candidate.
        recalled: ``(N, H)`` U^h h_{t-1}.
    """
    given = arrays(gates, weight, attention, offsets, order)
    run(_forward, *given, cell, *arrays(states, activated, recalled), work=_work(len(gates), weight))


def backward(
    grad_states: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, order: Tensor, cell: int,
    states: Tensor, activated: Tensor, recalled: Tensor,
    grad_gates: Tensor, grad_recalled: Tensor, grad_attention: Tensor,
) -> None:  # fmt: skip
    """Fill ``grad_gates (N, G)``, ``grad_recalled (N, H)`` and ``grad_attention (N,)`` of ``grad_states (N, H)``."""
    given = arrays(grad_states, weight, attention, offsets, order)
    results = arrays(grad_gates, grad_recalled, grad_attention)
    run(
        _backward,
        *given,
        cell,
        *arrays(states, activated, recalled),
        *results,
        work=_work(len(activated), weight),
    )


def last(
    gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, starts: Tensor, order: Tensor, cell: int, states: Tensor
) -> None:  # fmt: skip
    """Fill the last states ``(B, H)``, 0 of an empty history; nothing is kept for `backward`.

    As `forward`, but for ``gates (M, G)``, in which history b has the rows from ``starts[b]`` on, as others may.
    """
    given = arrays(gates, weight, attention, offsets, starts, order)
    run(_last, *given, cell, *arrays(states), work=_work(int(offsets[-1]), weight))


def weight_gradient(grad_gates: Tensor, grad_recalled: Tensor, states: Tensor, offsets: Tensor) -> Tensor:
    """``∂L/∂U`` of what `backward` found. Shape: ``(N, G), (N, H), (N, H), (B + 1,) -> (G, H)``."""
    work = grad_gates.numel() * states.shape[1] // 32
    sums = states.new_zeros(parts_of(work), grad_gates.shape[1], states.shape[1])
    run(_weight_gradient, *arrays(grad_gates, grad_recalled, states, offsets, sums), work=work)
    return sums.sum(0)


def _work(places: int, weight: Tensor) -> int:
    return places * weight.shape[0] * (2 + weight.shape[1] // 32)


@compiled
def _forward(gates, weight, attention, offsets, order, cell, states, activated, recalled, part, parts):
    """A part takes every so many-th group of histories."""
    width, hidden = weight.shape
    soft = width - hidden  # the columns of the gates that are sigmoids
    right = panels_of(weight.T)
    state = np.zeros((GROUP, hidden), float32)
    products = np.zeros((GROUP, width), float32)
    one = float32(1)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        rows = min(size, len(order) - first)
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            products[:rows] = 0
            add_product(state[:rows], right, products[:rows])
            for r in range(rows):
                p = offsets[order[first + r]] + t
                a = attention[p] if cell != GRU else one
                _move(cell, gates[p], products[r], a, activated[p], state[r])
                recalled[p] = products[r, soft:]
                states[p] = state[r]


@compiled
def _last(gates, weight, attention, offsets, starts, order, cell, states, part, parts):
    """As `_forward`; a history that ends leaves its state and the group."""
    width, hidden = weight.shape
    right = panels_of(weight.T)
    state = np.zeros((GROUP, hidden), float32)
    products = np.zeros((GROUP, width), float32)
    now = np.empty(width, float32)
    one = float32(1)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        most = min(size, len(order) - first)
        rows = most
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            products[:rows] = 0
            add_product(state[:rows], right, products[:rows])
            for r in range(rows):
                b = order[first + r]
                a = attention[offsets[b] + t] if cell != GRU else one
                _move(cell, gates[starts[b] + t], products[r], a, now, state[r])
        for r in range(most):
            states[order[first + r]] = state[r]


@njit(inline="always")
def _move(cell, given, product, a, now, state):
    """One step of one history: its gates, activated, are left in ``now``."""
    hidden = len(state)
    soft = len(now) - hidden
    for j in range(soft):
        now[j] = sigmoid(given[j] + product[j])
    reset, gate, candidate = now[:hidden], now[soft - hidden : soft], now[soft:]
    given, product = given[soft:], product[soft:]
    for j in range(hidden):
        candidate[j] = tanh(given[j] + reset[j] * product[j])
    for j in range(hidden):
        state[j] += _update(cell, gate[j], a) * (candidate[j] - state[j])


@compiled
def _backward(
    grad_states, weight, attention, offsets, order, cell, states, activated, recalled,
    grad_gates, grad_recalled, grad_attention, part, parts,
):  # fmt: skip
    width, hidden = weight.shape
    soft = width - hidden
    right = panels_of(weight)
    flowing = np.zeros((GROUP, hidden), float32)  # ∂L/∂h_t from later steps
    products = np.zeros((GROUP, width), float32)
    to_update, to_candidate = np.zeros(hidden, float32), np.zeros(hidden, float32)
    zeros = np.zeros(hidden, float32)
    one = float32(1)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        most = min(size, len(order) - first)
        rows = 0
        flowing[:] = 0
        for t in range(_length(offsets, order, first) - 1, -1, -1):
            while rows < most and _length(offsets, order, first + rows) > t:
                rows += 1
            for r in range(rows):
                p = offsets[order[first + r]] + t
                now, flow, to_state = activated[p], flowing[r], grad_states[p]
                reset, gate, candidate = now[:hidden], now[soft - hidden : soft], now[soft:]
                to_reset, to_recalled = products[r, :hidden], products[r, soft:]
                old = states[p - 1] if t else zeros
                a = attention[p] if cell != GRU else float32(0)
                # few arrays a loop: a compiler proves that they do not overlap, and vectorises
                for j in range(hidden):
                    flow[j] += to_state[j]
                for j in range(hidden):
                    to_update[j] = flow[j] * (candidate[j] - old[j])
                for j in range(hidden):
                    z = _update(cell, gate[j], a)
                    to_candidate[j] = flow[j] * z * (one - candidate[j] * candidate[j])
                    flow[j] *= one - z
                for j in range(hidden):
                    to_recalled[j] = to_candidate[j] * reset[j]
                given = recalled[p]
                for j in range(hidden):
                    to_reset[j] = to_recalled[j] * given[j] * (one - reset[j])
                if cell != GRU:
                    grad_attention[p] = _to_attention(cell, to_update, gate)
                if cell != AGRU:
                    _to_gate(cell, to_update, gate, a, products[r, hidden:soft])
                _copy(products[r, :soft], grad_gates[p, :soft])
                _copy(to_candidate, grad_gates[p, soft:])
                _copy(to_recalled, grad_recalled[p])
            add_product(products[:rows], right, flowing[:rows])


@compiled
def _weight_gradient(grad_gates, grad_recalled, states, offsets, sums, part, parts):
    width, hidden = sums.shape[1:]
    soft = width - hidden
    before, flow = rows_of(CHUNK, hidden), rows_of(CHUNK, width)
    columns = np.empty((panel_count(hidden), CHUNK, COLUMNS), float32)
    first, last = share(len(offsets) - 1, part, parts)
    b = first
    for begin in range(offsets[first], offsets[last], CHUNK):
        size = min(CHUNK, offsets[last] - begin)
        for r in range(size):
            p = begin + r
            while offsets[b + 1] <= p:
                b += 1
            if p == offsets[b]:
                before[r] = 0
            else:
                _copy(states[p - 1], before[r])
            _copy(grad_gates[p, :soft], flow[r])
            _copy(grad_recalled[p], flow[r, soft:width])
        panels(before[:size], hidden, columns)
        add_product(flow[:size, :width].T, columns, sums[part])


@njit(inline="always")
def _to_attention(cell, to_update, gate):
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
def _copy(given, out):
    for j in range(len(given)):
        out[j] = given[j]


@njit(inline="always")
def _group_size(histories, parts):
    """Histories of a group: all have about as many, and two threads as many groups."""
    groups = (histories + GROUP - 1) // GROUP
    if parts > 1:
        groups += groups % 2
    return max(1, (histories + groups - 1) // max(1, groups))


@njit(inline="always")
def _length(offsets, order, rank):
    sample = order[rank]
    return offsets[sample + 1] - offsets[sample]


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
