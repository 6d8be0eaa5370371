"""The loops of `gru.gru` for GPUs: one Triton kernel a direction, the states kept on the chip across steps.

A program walks some histories of similar length together. The products of a step take what they need of the state from where the
step before has written it, and the weights from the cache, a few columns at a time: the shared memory that a kernel asks for does
not grow with the state's width as theirs would.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
import triton
import triton.language as tl
from torch import Tensor

GRU, AGRU, AUGRU, AUGRU_CODE = (tl.constexpr(number) for number in range(4))
BLOCK = 16  # histories a program: the least that a matrix product on the chip takes
CHUNK = 16  # columns of the state a product takes at once


def forward(
    gates: Tensor, weights: Sequence[Tensor], attention: Tensor, offsets: Tensor, order: Tensor, cell: int, *found: Tensor
) -> None:  # fmt: skip
    """As `gru_cpu.forward` of the gates."""
    (weight,) = weights
    given = [tensor.contiguous() for tensor in (gates, weight.t(), attention)]
    _run(_forward, order, cell, weight.shape[1], *given, offsets, order, *found)


def backward(
    grad_states: Tensor, last: bool, gates: Tensor | None, weights: Sequence[Tensor], attention: Tensor, offsets: Tensor,
    order: Tensor, cell: int, *found: Tensor,
) -> tuple[Tensor, list[Tensor | None], Tensor]:  # fmt: skip
    """As `gru_cpu.backward` of the gates, whose values are not needed."""
    (weight,), (states, activated, recalled) = weights, found
    grad_gates, grad_recalled = torch.empty_like(activated), torch.empty_like(recalled)
    grad_attention = torch.zeros_like(attention)
    if last:
        grad_states = _at_the_ends(grad_states, offsets, len(states))
    given = [tensor.contiguous() for tensor in (grad_states, weight, attention)]
    results = grad_gates, grad_recalled, grad_attention
    _run(_backward, order, cell, weight.shape[1], *given, offsets, order, *found, *results)
    before = _before(states, offsets)
    grad_soft = grad_gates[:, : -states.shape[1]]
    return grad_gates, [torch.cat([grad_soft.t() @ before, grad_recalled.t() @ before])], grad_attention


def _at_the_ends(rows: Tensor, offsets: Tensor, places: int) -> Tensor:
    """A row at the last place of every run, 0 elsewhere. Shape: ``(B, H) -> (places, H)``."""
    ends = torch.where(
        offsets.diff() > 0, offsets[1:] - 1, places
    )  # of an empty run: a place that is left out
    return rows.new_zeros(places + 1, rows.shape[1]).index_copy_(0, ends, rows)[:-1]


def _before(states: Tensor, offsets: Tensor) -> Tensor:
    """``h_{t-1}`` of every position: 0 at the start of a history. Shape: ``(N, H) -> (N, H)``."""
    before = states.new_zeros(len(states) + 1, states.shape[1])
    before[1:] = states
    starts = offsets[:-1]  # that of an empty history at the end lies after the last row
    return before.index_fill_(0, starts, 0)[:-1]


def _run(kernel, order: Tensor, cell: int, hidden: int, *tensors: Tensor) -> None:
    if not len(order):
        return
    with torch.cuda.device(order.device) if order.is_cuda else nullcontext():
        kernel[(triton.cdiv(len(order), BLOCK),)](*tensors, len(order), CELL=cell, **settings(hidden))


def settings(hidden: int) -> dict[str, int]:
    """What a kernel is compiled with for a state of this width.

    One stage: a loop must not read ahead what the step before has yet to write.
    """
    width = max(16, triton.next_power_of_2(hidden))
    return {
        "H": hidden,
        "WIDTH": width,
        "ROWS": BLOCK,
        "STEP": CHUNK,
        "num_warps": 4 if width <= 64 else 8,
        "num_stages": 1,
    }


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
def _add_product(
    total, rows, active, matrix, stride, H: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr
):
    """``total (ROWS, WIDTH)`` and the product of rows that begin at ``rows (ROWS, 1)`` with an ``(H, H)`` part of a matrix."""
    column = tl.arange(0, WIDTH)[None, :]
    for first in range(0, H, STEP):
        k = first + tl.arange(0, STEP)
        left = tl.load(rows + k[None, :], mask=active & (k < H)[None, :], other=0.0)
        right = tl.load(
            matrix + k[:, None] * stride + column, mask=(k < H)[:, None] & (column < H), other=0.0
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    return total


@triton.jit
def _forward(
    gates, weight, attention, offsets, order, states, activated, recalled, size,
    H: tl.constexpr, WIDTH: tl.constexpr, CELL: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """``weight (H, G)`` is transposed, so that its rows are read as they lie."""
    SOFT: tl.constexpr = H if CELL == AGRU else 2 * H
    G: tl.constexpr = SOFT + H
    start, length = _span(offsets, order, size, ROWS)
    column = tl.arange(0, WIDTH)
    zeros = tl.zeros((ROWS, WIDTH), tl.float32)
    state = zeros
    for t in range(0, tl.max(length, axis=0)):
        now = t < length
        active = now[:, None] & (column < H)[None, :]
        place = (start + t)[:, None]
        given = gates + place * G + column[None, :]
        kept = activated + place * G + column[None, :]
        old, known = states + (place - 1) * H, now[:, None] & (t > 0)
        reset = tl.load(given, mask=active, other=0.0)
        reset = tl.sigmoid(_add_product(reset, old, known, weight, G, H, WIDTH, STEP))
        product = _add_product(zeros, old, known, weight + SOFT, G, H, WIDTH, STEP)
        candidate = tl.load(given + SOFT, mask=active, other=0.0) + reset * product
        candidate = 2 * tl.sigmoid(2 * candidate) - 1  # tanh
        gate = reset
        if CELL != AGRU:
            gate = tl.load(given + H, mask=active, other=0.0)
            gate = tl.sigmoid(_add_product(gate, old, known, weight + H, G, H, WIDTH, STEP))
            tl.store(kept + H, gate, mask=active)
        a = gate
        if CELL != GRU:
            a = tl.load(attention + start + t, mask=now, other=0.0)[:, None] + zeros
        state = tl.where(active, state + _z(gate, a, CELL) * (candidate - state), state)
        tl.store(kept, reset, mask=active)
        tl.store(kept + SOFT, candidate, mask=active)
        tl.store(recalled + place * H + column[None, :], product, mask=active)
        tl.store(states + place * H + column[None, :], state, mask=active)
        tl.debug_barrier()  # the next step reads the state that other threads have written


@triton.jit
def _backward(  # noqa: PLR0915  one loop, so that the states stay on the chip
    grad_states, weight, attention, offsets, order, states, activated, recalled,
    grad_gates, grad_recalled, grad_attention, size,
    H: tl.constexpr, WIDTH: tl.constexpr, CELL: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    SOFT: tl.constexpr = H if CELL == AGRU else 2 * H
    G: tl.constexpr = SOFT + H
    start, length = _span(offsets, order, size, ROWS)
    column = tl.arange(0, WIDTH)
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
        out, out_recalled = grad_gates + place * G, grad_recalled + place * H
        tl.store(out + column[None, :], to_reset, mask=active)
        tl.store(out + SOFT + column[None, :], to_candidate, mask=active)
        tl.store(out_recalled + column[None, :], to_recalled, mask=active)
        if CELL != AGRU:
            to_gate = to_z * gate * (1 - gate)
            if CELL == AUGRU:
                to_gate = to_gate * a
            elif CELL == AUGRU_CODE:
                to_gate = to_gate * (1 - a)
            tl.store(out + H + column[None, :], to_gate, mask=active)
        if CELL != GRU:
            share = to_z
            if CELL == AUGRU:
                share = to_z * gate
            elif CELL == AUGRU_CODE:
                share = to_z * (1 - gate)
            tl.store(grad_attention + start + t, tl.sum(share, axis=1), mask=now)
        tl.debug_barrier()  # the products read what other threads have written
        through = _add_product(grad * (1 - z), out, now[:, None], weight, H, H, WIDTH, STEP)
        through = _add_product(through, out_recalled, now[:, None], weight + SOFT * H, H, H, WIDTH, STEP)
        if CELL != AGRU:
            through = _add_product(through, out + H, now[:, None], weight + H * H, H, H, WIDTH, STEP)
        flowing = tl.where(active, through, flowing)
