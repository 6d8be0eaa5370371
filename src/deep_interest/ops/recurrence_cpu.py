"""The loops of `recurrence.recurrence` for CPUs, compiled by numba: float32, no padding, states kept in the cache.

Eight histories of similar length are walked together; the threads share the groups of eight, so that the result does
not depend on their number.
"""

import numpy as np
from numba import float32, njit
from torch import Tensor

from deep_interest.ops.compiled import arrays, compiled, run

GRU, AGRU, AUGRU, AUGRU_CODE = range(4)
GROUP = 8


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
    given = arrays(gates, weight.t(), attention, offsets, order)
    run(_forward, *given, cell, *arrays(states, activated, recalled), work=gates.numel())


def backward(
    grad_states: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, order: Tensor, cell: int,
    states: Tensor, activated: Tensor, recalled: Tensor,
    grad_gates: Tensor, grad_recalled: Tensor, grad_attention: Tensor,
) -> None:  # fmt: skip
    """Fill ``grad_gates (N, G)``, ``grad_recalled (N, H)`` and ``grad_attention (N,)`` of ``grad_states (N, H)``."""
    given = arrays(grad_states, weight, attention, offsets, order)
    results = arrays(grad_gates, grad_recalled, grad_attention)
    run(_backward, *given, cell, *arrays(states, activated, recalled), *results, work=activated.numel())


@compiled
def _forward(gates, weight, attention, offsets, order, cell, states, activated, recalled, part, parts):
    """``weight (H, G)`` comes transposed; a part takes every so many-th group of histories."""
    hidden, width = weight.shape
    soft = width - hidden  # the columns of the gates that are sigmoids
    state = np.zeros((GROUP, hidden), float32)
    products = np.zeros((GROUP, width), float32)
    one, half = float32(1), float32(0.5)
    for first in range(part * GROUP, len(order), parts * GROUP):
        rows = min(GROUP, len(order) - first)
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            _multiply(state, weight, products, rows)
            for r in range(rows):
                p = offsets[order[first + r]] + t
                given, product, now, old, out = gates[p], products[r], activated[p], state[r], states[p]
                for j in range(soft):
                    now[j] = half + half * _tanh(half * (given[j] + product[j]))
                reset, gate, candidate = now[:hidden], now[soft - hidden : soft], now[soft:]
                given, product = given[soft:], product[soft:]
                for j in range(hidden):
                    candidate[j] = _tanh(given[j] + reset[j] * product[j])
                recalled[p] = product
                a = attention[p] if cell != GRU else one
                for j in range(hidden):
                    old[j] += _update(cell, gate[j], a) * (candidate[j] - old[j])
                out[:] = old


@compiled
def _backward(  # noqa: PLR0912  one loop nest, so that a row's numbers stay in the cache
    grad_states, weight, attention, offsets, order, cell, states, activated, recalled,
    grad_gates, grad_recalled, grad_attention, part, parts,
):  # fmt: skip
    width, hidden = weight.shape
    soft = width - hidden
    flowing = np.zeros((GROUP, hidden), float32)  # ∂L/∂h_t from later steps
    products = np.zeros((GROUP, width), float32)
    through = np.zeros((GROUP, hidden), float32)
    to_update, to_candidate = np.zeros(hidden, float32), np.zeros(hidden, float32)
    zeros = np.zeros(hidden, float32)
    one = float32(1)
    for first in range(part * GROUP, len(order), parts * GROUP):
        most = min(GROUP, len(order) - first)
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
            _multiply(products, weight, through, rows)
            for r in range(rows):
                flow, more = flowing[r], through[r]
                for j in range(hidden):
                    flow[j] += more[j]


@compiled
def _to_attention(cell, to_update, gate):
    """``∂L/∂a_t``."""
    total = float32(0)
    for j in range(len(gate)):
        share = float32(1) if cell == AGRU else gate[j] if cell == AUGRU else float32(1) - gate[j]
        total += to_update[j] * share
    return total


@compiled
def _to_gate(cell, to_update, gate, a, to_gate):
    """The gradient of the update gate before its sigmoid."""
    scale = float32(1) if cell == GRU else a if cell == AUGRU else float32(1) - a
    for j in range(len(gate)):
        to_gate[j] = scale * to_update[j] * gate[j] * (float32(1) - gate[j])


@njit(inline="always")
def _copy(given, out):
    for j in range(len(out)):
        out[j] = given[j]


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


@compiled
def _multiply(left, right, out, rows):
    """``out[:rows] = left[:rows] @ right``; four rows by four columns of ``left`` at a time stay in registers."""
    inner, columns = right.shape
    whole = inner - inner % 4
    for r in range(0, rows, 4):
        out0, out1, out2, out3 = out[r], out[r + 1], out[r + 2], out[r + 3]
        for j in range(columns):
            out0[j] = out1[j] = out2[j] = out3[j] = float32(0)
        for k in range(0, whole, 4):
            a0, a1, a2, a3 = left[r, k], left[r, k + 1], left[r, k + 2], left[r, k + 3]
            b0, b1, b2, b3 = left[r + 1, k], left[r + 1, k + 1], left[r + 1, k + 2], left[r + 1, k + 3]
            c0, c1, c2, c3 = left[r + 2, k], left[r + 2, k + 1], left[r + 2, k + 2], left[r + 2, k + 3]
            d0, d1, d2, d3 = left[r + 3, k], left[r + 3, k + 1], left[r + 3, k + 2], left[r + 3, k + 3]
            row0, row1, row2, row3 = right[k], right[k + 1], right[k + 2], right[k + 3]
            for j in range(columns):
                w, x, y, z = row0[j], row1[j], row2[j], row3[j]
                out0[j] += a0 * w + a1 * x + a2 * y + a3 * z
                out1[j] += b0 * w + b1 * x + b2 * y + b3 * z
                out2[j] += c0 * w + c1 * x + c2 * y + c3 * z
                out3[j] += d0 * w + d1 * x + d2 * y + d3 * z
        for k in range(whole, inner):
            a0, a1, a2, a3 = left[r, k], left[r + 1, k], left[r + 2, k], left[r + 3, k]
            last = right[k]
            for j in range(columns):
                w = last[j]
                out0[j] += a0 * w
                out1[j] += a1 * w
                out2[j] += a2 * w
                out3[j] += a3 * w


@njit(inline="always")
def _tanh(x):
    """``tanh(x)`` to 4e-7 as a quotient of polynomials in x², fitted on [-8, 8]; beyond, float32 knows no difference to ±1."""
    x = min(max(x, float32(-8)), float32(8))
    s = x * x
    over = float32(0.0035716029) + s * (float32(2.1894743e-05) + s * float32(1.5230533e-08))
    over = float32(1) + s * (float32(0.13444502) + s * over)
    under = float32(0.026164461) + s * (float32(0.00034113000) + s * float32(8.5224931e-07))
    under = float32(1) + s * (float32(0.46777829) + s * under)
    return x * over / under
