"""The GPU backend of `gru.gru`: one Triton kernel per direction, the states kept in registers across steps.

A program advances a block of histories of similar length. The matrix products of a step read the state that the
step before has
written to memory, and the weights from the cache, a few columns at a time: the shared memory of a program does not
grow with the width of the state.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
import triton
import triton.language as tl
from torch import Tensor

from deep_interest.ops.kernels.gru_step import GRUInputs, GRUSaved

GRU, AGRU, AUGRU, AUGRU_CODE = (tl.constexpr(code) for code in range(4))  # in the order of `gru.VARIANTS`
BLOCK = 16  # histories of a program: the fewest rows that a matrix product on tensor cores takes
CHUNK = 16  # columns of the state that a product reads at once


def forward(inputs: GRUInputs, weights: Sequence[Tensor], variant: int, saved: GRUSaved) -> None:
    """Compute all states from the gates, as `gru_cpu.forward`."""
    (weight,) = weights
    arguments = [tensor.contiguous() for tensor in (inputs.values, weight.t(), inputs.attention)]
    _run(_forward, inputs.order, variant, weight.shape[1], *arguments, inputs.offsets, inputs.order, *saved)


def backward(
    grad_states: Tensor, last: bool, inputs: GRUInputs, weights: Sequence[Tensor], variant: int, saved: GRUSaved,
    accumulator: object = None,
) -> tuple[Tensor, list[Tensor | None], Tensor]:  # fmt: skip
    """Compute the gradients, as `gru_cpu.backward`, but always return them."""
    (weight,), (states, gates, recurrent), offsets = weights, saved, inputs.offsets
    grad_gates, grad_recurrent = torch.empty_like(gates), torch.empty_like(recurrent)
    grad_attention = torch.zeros_like(inputs.attention)
    if last:
        grad_states = _at_last_positions(grad_states, offsets, len(states))
    arguments = [tensor.contiguous() for tensor in (grad_states, weight, inputs.attention)]
    outputs = grad_gates, grad_recurrent, grad_attention
    _run(
        _backward, inputs.order, variant, weight.shape[1], *arguments, offsets, inputs.order, *saved, *outputs
    )
    previous = _previous_states(states, offsets)
    grad_soft = grad_gates[:, : -states.shape[1]]
    return grad_gates, [torch.cat([grad_soft.t() @ previous, grad_recurrent.t() @ previous])], grad_attention


def _at_last_positions(rows: Tensor, offsets: Tensor, total: int) -> Tensor:
    """Return each history's row at its last position, 0 elsewhere. Shape: ``(B, H) -> (total, H)``."""
    ends = torch.where(
        offsets.diff() > 0, offsets[1:] - 1, total
    )  # of an empty history: a position that is dropped
    return rows.new_zeros(total + 1, rows.shape[1]).index_copy_(0, ends, rows)[:-1]


def _previous_states(states: Tensor, offsets: Tensor) -> Tensor:
    """Return ``h_{t-1}`` of every position, 0 at the start of a history. Shape: ``(N, H) -> (N, H)``."""
    previous = states.new_zeros(len(states) + 1, states.shape[1])
    previous[1:] = states
    starts = offsets[:-1]  # that of an empty history at the end is the position after the last row
    return previous.index_fill_(0, starts, 0)[:-1]


def _run(kernel, order: Tensor, variant: int, hidden: int, *tensors: Tensor) -> None:
    if not len(order):
        return
    with torch.cuda.device(order.device) if order.is_cuda else nullcontext():
        grid = (triton.cdiv(len(order), BLOCK),)
        kernel[grid](*tensors, len(order), VARIANT=variant, **settings(hidden))


def settings(hidden: int) -> dict[str, int]:
    """Return the compile-time constants of a kernel for a state of this width.

    One stage: a loop must not prefetch what the previous step has yet to write.
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
    """Return the first position and the length of each history of the program; 0 beyond the last history."""
    rank = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    sample = tl.load(order + rank, mask=rank < size, other=0)
    start = tl.load(offsets + sample)
    return start, tl.where(rank < size, tl.load(offsets + sample + 1) - start, 0)


@triton.jit
def _update_gate(gate, a, VARIANT: tl.constexpr):
    """Return ``z_t``, the weight of the candidate state in the new state."""
    if VARIANT == GRU:
        return gate
    elif VARIANT == AGRU:
        return a
    elif VARIANT == AUGRU:
        return a * gate
    else:
        return gate + a * (1 - gate)


@triton.jit
def _add_product(
    total, rows, active, matrix, stride, H: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr
):
    """Add to ``total (ROWS, WIDTH)`` the product of rows, at addresses ``(ROWS, 1)``, with an ``(H, H)`` block."""
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
    gates, weight, attention, offsets, order, states, gates_saved, recurrent, size,
    H: tl.constexpr, WIDTH: tl.constexpr, VARIANT: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Compute all states; ``weight (H, G)`` is transposed, so that its rows are contiguous."""
    SOFT: tl.constexpr = H if VARIANT == AGRU else 2 * H
    G: tl.constexpr = SOFT + H
    start, length = _span(offsets, order, size, ROWS)
    column = tl.arange(0, WIDTH)
    zeros = tl.zeros((ROWS, WIDTH), tl.float32)
    state = zeros
    for t in range(0, tl.max(length, axis=0)):
        is_active = t < length
        active = is_active[:, None] & (column < H)[None, :]
        position = (start + t)[:, None]
        inputs_at = gates + position * G + column[None, :]
        saved_at = gates_saved + position * G + column[None, :]
        previous_at, has_previous = states + (position - 1) * H, is_active[:, None] & (t > 0)
        reset = tl.load(inputs_at, mask=active, other=0.0)
        reset = tl.sigmoid(_add_product(reset, previous_at, has_previous, weight, G, H, WIDTH, STEP))
        product = _add_product(zeros, previous_at, has_previous, weight + SOFT, G, H, WIDTH, STEP)
        candidate = tl.load(inputs_at + SOFT, mask=active, other=0.0) + reset * product
        candidate = 2 * tl.sigmoid(2 * candidate) - 1  # tanh
        gate = reset
        if VARIANT != AGRU:
            gate = tl.load(inputs_at + H, mask=active, other=0.0)
            gate = tl.sigmoid(_add_product(gate, previous_at, has_previous, weight + H, G, H, WIDTH, STEP))
            tl.store(saved_at + H, gate, mask=active)
        a = gate
        if VARIANT != GRU:
            a = tl.load(attention + start + t, mask=is_active, other=0.0)[:, None] + zeros
        state = tl.where(active, state + _update_gate(gate, a, VARIANT) * (candidate - state), state)
        tl.store(saved_at, reset, mask=active)
        tl.store(saved_at + SOFT, candidate, mask=active)
        tl.store(recurrent + position * H + column[None, :], product, mask=active)
        tl.store(states + position * H + column[None, :], state, mask=active)
        tl.debug_barrier()  # the next step reads the state that other threads have written


@triton.jit
def _backward(  # noqa: PLR0915  one loop, so that the states stay in registers
    grad_states, weight, attention, offsets, order, states, gates_saved, recurrent,
    grad_gates, grad_recurrent, grad_attention, size,
    H: tl.constexpr, WIDTH: tl.constexpr, VARIANT: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    SOFT: tl.constexpr = H if VARIANT == AGRU else 2 * H
    G: tl.constexpr = SOFT + H
    start, length = _span(offsets, order, size, ROWS)
    column = tl.arange(0, WIDTH)
    grad_state = tl.zeros((ROWS, WIDTH), tl.float32)
    longest = tl.max(length, axis=0)
    for step in range(0, longest):
        t = longest - 1 - step
        is_active = t < length
        active = is_active[:, None] & (column < H)[None, :]
        position = (start + t)[:, None]
        inputs_at = gates_saved + position * G + column[None, :]
        reset = tl.load(inputs_at, mask=active, other=0.0)
        candidate = tl.load(inputs_at + SOFT, mask=active, other=0.0)
        product = tl.load(recurrent + position * H + column[None, :], mask=active, other=0.0)
        previous = tl.load(states + (position - 1) * H + column[None, :], mask=active & (t > 0), other=0.0)
        grad = grad_state + tl.load(grad_states + position * H + column[None, :], mask=active, other=0.0)
        gate = reset
        if VARIANT != AGRU:
            gate = tl.load(inputs_at + H, mask=active, other=0.0)
        a = gate
        if VARIANT != GRU:
            a = tl.load(attention + start + t, mask=is_active, other=0.0)[:, None] + tl.zeros_like(grad)
        z = _update_gate(gate, a, VARIANT)
        grad_z = tl.where(active, grad * (candidate - previous), 0.0)
        grad_candidate = tl.where(active, grad * z * (1 - candidate * candidate), 0.0)
        grad_recurrent_row = grad_candidate * reset
        grad_reset = grad_recurrent_row * product * (1 - reset)
        out, out_recurrent = grad_gates + position * G, grad_recurrent + position * H
        tl.store(out + column[None, :], grad_reset, mask=active)
        tl.store(out + SOFT + column[None, :], grad_candidate, mask=active)
        tl.store(out_recurrent + column[None, :], grad_recurrent_row, mask=active)
        if VARIANT != AGRU:
            grad_gate = grad_z * gate * (1 - gate)
            if VARIANT == AUGRU:
                grad_gate = grad_gate * a
            elif VARIANT == AUGRU_CODE:
                grad_gate = grad_gate * (1 - a)
            tl.store(out + H + column[None, :], grad_gate, mask=active)
        if VARIANT != GRU:
            grad_a = grad_z
            if VARIANT == AUGRU:
                grad_a = grad_z * gate
            elif VARIANT == AUGRU_CODE:
                grad_a = grad_z * (1 - gate)
            tl.store(grad_attention + start + t, tl.sum(grad_a, axis=1), mask=is_active)
        tl.debug_barrier()  # the products read what other threads have written
        grad_previous = _add_product(grad * (1 - z), out, is_active[:, None], weight, H, H, WIDTH, STEP)
        grad_previous = _add_product(
            grad_previous, out_recurrent, is_active[:, None], weight + SOFT * H, H, H, WIDTH, STEP
        )
        if VARIANT != AGRU:
            grad_previous = _add_product(
                grad_previous, out + H, is_active[:, None], weight + H * H, H, H, WIDTH, STEP
            )
        grad_state = tl.where(active, grad_previous, grad_state)
