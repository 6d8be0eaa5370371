"""The loop of `recurrent.GRU` for CPUs, compiled by numba: float32, no padding, states kept in the cache.

Eight histories of similar length are walked together; the threads share the groups of eight, so that the result does
not depend on their number.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from math import floor

import numpy as np
from numba import float32, int32, njit

GRU, AGRU, AUGRU, AUGRU_CODE = range(4)
GROUP = 8
_compile = njit(fastmath={"contract", "reassoc", "nsz", "arcp"}, nogil=True, error_model="numpy", cache=True)


def run(kernel, *arguments, threads: int) -> None:
    """Run ``kernel(*arguments, part, parts)`` for every part, one a thread.

    Args:
        kernel: `forward` or `backward`.
        arguments: the kernel's, without the last two.
        threads: number of parts.
    """
    others: list[Future] = [_pool().submit(kernel, *arguments, part, threads) for part in range(1, threads)]
    kernel(*arguments, 0, threads)
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="recurrent")


@_compile
def forward(gates, weight, attention, offsets, order, cell, states, activated, recalled, part, parts):
    """Fill ``states (N, H)``, ``activated (N, G)`` (reset, update where there is one, candidate) and ``recalled (N, H)``.

    Args:
        gates: ``(N, G)`` what the inputs add to the gates, bias included.
        weight: ``(H, G)`` the state's weights, transposed.
        attention: ``(N,)``, or empty for a GRU.
        offsets: ``(B + 1,)``.
        order: ``(B,)`` samples by falling length.
        cell: GRU, AGRU, AUGRU or AUGRU_CODE.
        states, activated, recalled: results; recalled is U^h h_{t-1}.
        part, parts: which groups of histories this call takes.
    """
    hidden, width = weight.shape
    soft = width - hidden  # the columns of the gates that are sigmoids
    state = np.zeros((GROUP, hidden), float32)
    products = np.zeros((GROUP, width), float32)
    gate, candidate = np.empty((GROUP, soft), float32), np.empty((GROUP, hidden), float32)
    bits = np.empty(GROUP * width, int32)
    two, one = float32(2), float32(1)
    for first in range(part * GROUP, len(order), parts * GROUP):
        rows = min(GROUP, len(order) - first)
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            _multiply(state, weight, products, rows)
            for r in range(rows):
                p = offsets[order[first + r]] + t
                given, product, now = gates[p], products[r], gate[r]
                for j in range(soft):
                    now[j] = given[j] + product[j]
            _sigmoid(gate.ravel()[: rows * soft], bits)
            for r in range(rows):
                p = offsets[order[first + r]] + t
                given, product, reset, new, kept = gates[p], products[r], gate[r], candidate[r], recalled[p]
                for j in range(hidden):
                    kept[j] = product[soft + j]
                    new[j] = two * (given[soft + j] + reset[j] * product[soft + j])
            _sigmoid(candidate.ravel()[: rows * hidden], bits)
            for r in range(rows):
                p = offsets[order[first + r]] + t
                soft_now, new, now, old, out = gate[r], candidate[r], activated[p], state[r], states[p]
                for j in range(soft):
                    now[j] = soft_now[j]
                a = attention[p] if cell != GRU else one
                for j in range(hidden):
                    tanh = two * new[j] - one  # tanh x = 2 σ(2x) - 1
                    now[soft + j] = tanh
                    z = _update(cell, soft_now[soft - hidden + j], a)
                    value = old[j] + z * (tanh - old[j])
                    old[j] = value
                    out[j] = value


@_compile
def backward(  # noqa: PLR0912  one loop nest, so that a row's numbers stay in the cache
    grad_states, weight, attention, offsets, order, cell, states, activated, recalled,
    grad_gates, grad_recalled, grad_attention, part, parts,
):  # fmt: skip
    """Fill ``grad_gates (N, G)``, ``grad_recalled (N, H)`` and ``grad_attention (N,)``.

    Args:
        grad_states: ``(N, H)``.
        weight: ``(G, H)`` the state's weights.
        attention, offsets, order, cell, states, activated, recalled, part, parts: as in `forward`.
        grad_gates, grad_recalled, grad_attention: results.
    """
    width, hidden = weight.shape
    soft = width - hidden
    flowing = np.zeros((GROUP, hidden), float32)  # ∂L/∂h_t from later steps
    products = np.zeros((GROUP, width), float32)
    through = np.zeros((GROUP, hidden), float32)
    nothing = np.zeros(hidden, float32)
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
                now, product, flow = activated[p], products[r], flowing[r]
                old = states[p - 1] if t else zeros
                a = attention[p] if cell != GRU else float32(0)
                to_attention = float32(0)
                for j in range(hidden):
                    gate, candidate, reset = now[soft - hidden + j], now[soft + j], now[j]
                    grad = flow[j] + grad_states[p, j]
                    z = _update(cell, gate, a)
                    grad_z = grad * (candidate - old[j])
                    grad_candidate = grad * z * (one - candidate * candidate)
                    grad_gates[p, soft + j] = grad_candidate
                    grad_recalled[p, j] = grad_candidate * reset
                    product[soft + j] = grad_candidate * reset
                    to_reset = grad_candidate * recalled[p, j] * reset * (one - reset)
                    grad_gates[p, j] = to_reset
                    product[j] = to_reset
                    nothing[j] = grad_z
                    flow[j] = grad * (one - z)
                if cell == AGRU:
                    for j in range(hidden):
                        to_attention += nothing[j]
                else:
                    for j in range(hidden):
                        gate = now[hidden + j]
                        to_gate = nothing[j] * gate * (one - gate)
                        if cell == AUGRU:
                            to_gate *= a
                            to_attention += nothing[j] * gate
                        elif cell == AUGRU_CODE:
                            to_gate *= one - a
                            to_attention += nothing[j] * (one - gate)
                        grad_gates[p, hidden + j] = to_gate
                        product[hidden + j] = to_gate
                if cell != GRU:
                    grad_attention[p] = to_attention
            _multiply(products, weight, through, rows)
            for r in range(rows):
                for j in range(hidden):
                    flowing[r, j] += through[r, j]


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


@_compile
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


@_compile
def _sigmoid(x, bits):
    """In place ``1 / (1 + exp(-x))``, to 2e-7: the exponential as 2^k times a polynomial, so that the loops vectorise."""
    power = bits.view(np.float32)
    for i in range(len(x)):
        v = min(max(-x[i], float32(-87)), float32(87)) * float32(1.4426950408889634)
        k = floor(v + float32(0.5))
        g = (v - float32(k)) * float32(0.6931471805599453)
        tail = float32(0.041666668) + g * (float32(0.008333334) + g * float32(0.0013888889))
        x[i] = float32(1) + g * (float32(1) + g * (float32(0.5) + g * (float32(0.16666667) + g * tail)))
        bits[i] = (int32(k) + int32(127)) << int32(23)
    for i in range(len(x)):
        x[i] = float32(1) / (float32(1) + x[i] * power[i])
