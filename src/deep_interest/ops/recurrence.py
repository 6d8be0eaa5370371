"""The loop of a GRU whose update gate attention may steer, over jagged histories (DIEN eq. 3 to 6, 10 to 13)."""

from typing import Literal

import torch
from torch import Tensor

from deep_interest.ops import recurrence_loop
from deep_interest.ops.compiled import arrays, fits, run

Cell = Literal["gru", "agru", "augru", "augru_code"]
CELLS: tuple[Cell, ...] = ("gru", "agru", "augru", "augru_code")


def recurrence(gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, cell: Cell) -> Tensor:
    """The state after every behaviour; `models.recurrent.GRU` has the equations.

    Shape: ``gates (N, G)`` what the inputs add to the gates, ``weight (G, H)`` of the state, ``attention (N,)`` or
    empty, ``offsets (B + 1,)`` -> ``(N, H)``.
    """
    writing = _Compiled.apply if fits(gates, weight) else plain_recurrence
    return writing(gates, weight, attention, offsets, cell)


def plain_recurrence(gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, cell: Cell) -> Tensor:
    """The recurrence step by step in torch's own operations, for any device and dtype.

    Shape: ``gates (N, G)``, ``weight (G, H)``, ``attention (N,)``, ``offsets (B + 1,)`` -> ``(N, H)``.
    """
    hidden = weight.shape[1]
    lengths, order = offsets.diff().sort(descending=True, stable=True)
    starts = offsets[order]
    state = gates.new_zeros(len(order), hidden)
    rows, states = [], []
    for t in range(int(lengths[0]) if len(lengths) else 0):
        active = int((lengths > t).sum())
        now = starts[:active] + t
        state = state[:active]
        inputs, recalled = gates[now], state @ weight.t()
        soft = torch.sigmoid(inputs[:, :-hidden] + recalled[:, :-hidden])
        candidate = torch.tanh(inputs[:, -hidden:] + soft[:, :hidden] * recalled[:, -hidden:])
        update = _update(cell, soft[:, hidden:], attention[now].unsqueeze(1) if len(attention) else None)
        state = (1 - update) * state + update * candidate
        rows.append(now)
        states.append(state)
    if not states:
        return gates[:, :hidden]  # no behaviour at all
    return torch.cat(states)[torch.cat(rows).argsort()]


def _update(cell: Cell, gate: Tensor, attention: Tensor | None) -> Tensor:
    """``z_t``, the share of the candidate state in the new state; ``(b, H)``, or ``(b, 1)`` for AGRU."""
    if attention is None:
        return gate
    if cell == "agru":
        return attention
    return attention * gate if cell == "augru" else 1 - (1 - attention) * (1 - gate)


class _Compiled(torch.autograd.Function):
    """The recurrence by `recurrence_loop`; the backward pass is written out there."""

    @staticmethod
    def forward(ctx, gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, cell: Cell) -> Tensor:
        hidden = weight.shape[1]
        order = offsets.diff().argsort(descending=True, stable=True)
        states, recalled = gates.new_empty(len(gates), hidden), gates.new_empty(len(gates), hidden)
        activated = gates.new_empty(gates.shape)
        run(
            recurrence_loop.forward,
            *arrays(gates.contiguous(), weight.t().contiguous(), attention, offsets, order), CELLS.index(cell),
            *arrays(states, activated, recalled), work=gates.numel(),
        )  # fmt: skip
        ctx.save_for_backward(weight, attention, offsets, order, states, activated, recalled)
        ctx.cell = cell
        return states

    @staticmethod
    def backward(ctx, grad_states: Tensor):
        weight, attention, offsets, order, states, activated, recalled = ctx.saved_tensors
        hidden = weight.shape[1]
        grad_gates, grad_recalled = activated.new_empty(activated.shape), recalled.new_empty(recalled.shape)
        grad_attention = torch.zeros_like(attention)
        run(
            recurrence_loop.backward,
            *arrays(grad_states.contiguous(), weight.contiguous(), attention, offsets, order), CELLS.index(ctx.cell),
            *arrays(states, activated, recalled, grad_gates, grad_recalled, grad_attention),
            work=activated.numel(),
        )  # fmt: skip
        before = _before(states, offsets)
        grad_weight = torch.cat([grad_gates[:, :-hidden].t() @ before, grad_recalled.t() @ before])
        return grad_gates, grad_weight, grad_attention, None, None


def _before(states: Tensor, offsets: Tensor) -> Tensor:
    """``h_{t-1}`` of every position: 0 at the start of a history. Shape: ``(N, H) -> (N, H)``."""
    before = torch.zeros_like(states)
    before[1:] = states[:-1]
    starts = offsets[:-1]
    return before.index_fill_(0, starts[starts < len(states)], 0)
