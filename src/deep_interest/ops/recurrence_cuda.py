"""The loops of `recurrence.recurrence` for GPUs: one Triton kernel a direction, the states kept on the chip across steps.

A program walks some histories of similar length together; the weights of the state are read once.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

GRU, AGRU, AUGRU, AUGRU_CODE = (tl.constexpr(number) for number in range(4))
BLOCK = 16  # histories a program: the least that a matrix product on the chip takes


def forward(
    gates: Tensor, weights: Sequence[Tensor], attention: Tensor, offsets: Tensor, order: Tensor, cell: int, *found: Tensor
) -> None:  # fmt: skip
    """As `recurrence_cpu.forward` of the gates."""
    (weight,) = weights
    given = [tensor.contiguous() for tensor in (gates, weight, attention)]
    _run(_forward, order, cell, weight.shape[1], *given, offsets, order, *found)


def backward(
    grad_states: Tensor, gates: Tensor | None, weights: Sequence[Tensor], attention: Tensor, offsets: Tensor, order: Tensor,
    cell: int, *found: Tensor,
) -> tuple[Tensor, list[Tensor | None], Tensor]:  # fmt: skip
    """As `recurrence_cpu.backward` of the gates, whose values are not needed."""
    (weight,), (states, activated, recalled) = weights, found
    grad_gates, grad_recalled = torch.empty_like(activated), torch.empty_like(recalled)
    grad_attention = torch.zeros_like(attention)
    given = [tensor.contiguous() for tensor in (grad_states, weight, attention)]
    results = grad_gates, grad_recalled, grad_attention
    _run(_backward, order, cell, weight.shape[1], *given, offsets, order, *found, *results)
    before = _before(states, offsets)
    grad_soft = grad_gates[:, : -states.shape[1]]
    return grad_gates, [torch.cat([grad_soft.t() @ before, grad_recalled.t() @ before])], grad_attention


def _before(states: Tensor, offsets: Tensor) -> Tensor:
    """``h_{t-1}`` of every position: 0 at the start of a history. Shape: ``(N, H) -> (N, H)``."""
    before = torch.zeros_like(states)
    before[1:] = states[:-1]
    starts = offsets[:-1]
    return before.index_fill_(0, starts[starts < len(states)], 0)


def _run(kernel, order: Tensor, cell: int, hidden: int, *tensors: Tensor) -> None:
    if not len(order):
        return
    width = max(16, triton.next_power_of_2(hidden))
    kernel[(triton.cdiv(len(order), BLOCK),)](
        *tensors, len(order), H=hidden, WIDTH=width, CELL=cell, ROWS=BLOCK, num_warps=4 if width <= 64 else 8
    )


@triton.jit
def _span(offsets, order, size, ROWS: tl.constexpr):
    """Where the program's histories start, and how long they are; beyond the last one, 0 long."""
    rank = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    sample = tl.load(order + rank, mask=rank < size, other=0)
    start = tl.load(offsets + sample)
    return start, tl.where(rank < size, tl.load(offsets + sample + 1) - start, 0)


@triton.jit
def _z(gate, a, CELL: tl.constexpr):
    """``z_t``, the share of the candidate state in the new state."""
    if CELL == GRU:
        return gate
    elif CELL == AGRU:
        return a
    elif CELL == AUGRU:
        return a * gate
    else:
        return gate + a * (1 - gate)


@triton.jit
def _forward(
    gates, weight, attention, offsets, order, states, activated, recalled, size,
    H: tl.constexpr, WIDTH: tl.constexpr, CELL: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    SOFT: tl.constexpr = H if CELL == AGRU else 2 * H
    G: tl.constexpr = SOFT + H
    start, length = _span(offsets, order, size, ROWS)
    column = tl.arange(0, WIDTH)
    square = (column < H)[:, None] & (column < H)[None, :]
    place_of_weight = weight + column[:, None] + column[None, :] * H  # [k, j] of W[j, k]
    to_reset = tl.load(place_of_weight, mask=square, other=0.0)
    to_candidate = tl.load(place_of_weight + SOFT * H, mask=square, other=0.0)
    if CELL != AGRU:
        to_update = tl.load(place_of_weight + H * H, mask=square, other=0.0)
    state = tl.zeros((ROWS, WIDTH), tl.float32)
    for t in range(0, tl.max(length, axis=0)):
        now = t < length
        active = now[:, None] & (column < H)[None, :]
        place = (start + t)[:, None]
        given = gates + place * G + column[None, :]
        kept = activated + place * G + column[None, :]
        reset = tl.load(given, mask=active, other=0.0)
        reset = tl.sigmoid(reset + tl.dot(state, to_reset, input_precision="ieee"))
        product = tl.dot(state, to_candidate, input_precision="ieee")
        candidate = tl.load(given + SOFT, mask=active, other=0.0) + reset * product
        candidate = 2 * tl.sigmoid(2 * candidate) - 1  # tanh
        gate = reset
        if CELL != AGRU:
            gate = tl.load(given + H, mask=active, other=0.0)
            gate = tl.sigmoid(gate + tl.dot(state, to_update, input_precision="ieee"))
            tl.store(kept + H, gate, mask=active)
        a = gate
        if CELL != GRU:
            a = tl.load(attention + start + t, mask=now, other=0.0)[:, None] + tl.zeros_like(state)
        state = tl.where(active, state + _z(gate, a, CELL) * (candidate - state), state)
        tl.store(kept, reset, mask=active)
        tl.store(kept + SOFT, candidate, mask=active)
        tl.store(recalled + place * H + column[None, :], product, mask=active)
        tl.store(states + place * H + column[None, :], state, mask=active)


@triton.jit
def _backward(  # noqa: PLR0915  one loop, so that the states stay on the chip
    grad_states, weight, attention, offsets, order, states, activated, recalled,
    grad_gates, grad_recalled, grad_attention, size,
    H: tl.constexpr, WIDTH: tl.constexpr, CELL: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    SOFT: tl.constexpr = H if CELL == AGRU else 2 * H
    G: tl.constexpr = SOFT + H
    start, length = _span(offsets, order, size, ROWS)
    column = tl.arange(0, WIDTH)
    square = (column < H)[:, None] & (column < H)[None, :]
    place_of_weight = weight + column[:, None] * H + column[None, :]  # [j, k] of W[j, k]
    from_reset = tl.load(place_of_weight, mask=square, other=0.0)
    from_candidate = tl.load(place_of_weight + SOFT * H, mask=square, other=0.0)
    if CELL != AGRU:
        from_update = tl.load(place_of_weight + H * H, mask=square, other=0.0)
    flowing = tl.zeros((ROWS, WIDTH), tl.float32)
    longest = tl.max(length, axis=0)
    for step in range(0, longest):
        t = longest - 1 - step
        now = t < length
        active = now[:, None] & (column < H)[None, :]
        place = (start + t)[:, None]
        given = activated + place * G + column[None, :]
        reset = tl.load(given, mask=active, other=0.0)
        candidate = tl.load(given + SOFT, mask=active, other=0.0)
        product = tl.load(recalled + place * H + column[None, :], mask=active, other=0.0)
        before = tl.load(states + (place - 1) * H + column[None, :], mask=active & (t > 0), other=0.0)
        grad = flowing + tl.load(grad_states + place * H + column[None, :], mask=active, other=0.0)
        gate = reset
        if CELL != AGRU:
            gate = tl.load(given + H, mask=active, other=0.0)
        a = gate
        if CELL != GRU:
            a = tl.load(attention + start + t, mask=now, other=0.0)[:, None] + tl.zeros_like(grad)
        z = _z(gate, a, CELL)
        to_z = tl.where(active, grad * (candidate - before), 0.0)
        to_candidate = tl.where(active, grad * z * (1 - candidate * candidate), 0.0)
        to_recalled = to_candidate * reset
        to_reset = to_recalled * product * (1 - reset)
        through = tl.dot(to_reset, from_reset, input_precision="ieee")
        through += tl.dot(to_recalled, from_candidate, input_precision="ieee")
        out = grad_gates + place * G + column[None, :]
        if CELL != AGRU:
            to_gate = to_z * gate * (1 - gate)
            if CELL == AUGRU:
                to_gate = to_gate * a
            elif CELL == AUGRU_CODE:
                to_gate = to_gate * (1 - a)
            through += tl.dot(to_gate, from_update, input_precision="ieee")
            tl.store(out + H, to_gate, mask=active)
        if CELL != GRU:
            share = to_z
            if CELL == AUGRU:
                share = to_z * gate
            elif CELL == AUGRU_CODE:
                share = to_z * (1 - gate)
            tl.store(grad_attention + start + t, tl.sum(share, axis=1), mask=now)
        flowing = tl.where(active, grad * (1 - z) + through, flowing)
        tl.store(out, to_reset, mask=active)
        tl.store(out + SOFT, to_candidate, mask=active)
        tl.store(grad_recalled + place * H + column[None, :], to_recalled, mask=active)
