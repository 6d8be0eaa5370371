"""The loop of a GRU whose update gate attention may steer, over jagged histories (DIEN eq. 3 to 6, 10 to 13)."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops import recurrence_cpu
from deep_interest.ops.compiled import fits
from deep_interest.ops.runs import Runs, Views
from deep_interest.ops.views import view

Cell = Literal["gru", "agru", "augru", "augru_code"]
CELLS: tuple[Cell, ...] = ("gru", "agru", "augru", "augru_code")


def recurrence(gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, cell: Cell) -> Tensor:
    """The state after every behaviour; `models.recurrent.GRU` has the equations.

    Shape: ``gates (N, G)`` what the inputs add to the gates, ``weight (G, H)`` of the state, ``attention (N,)`` or
    empty, ``offsets (B + 1,)`` -> ``(N, H)``.
    """
    loops = _loops_for(gates, weight)
    if loops is None:
        return plain_recurrence(gates, weight, attention, offsets, cell)
    return _Loops.apply(gates, weight, attention, offsets, cell, loops)


def last_states(gates: Tensor, weight: Tensor, attention: Tensor, runs: Runs, cell: Cell) -> Tensor:
    """Each run's last state, 0 of an empty run; where no gradients are asked for, nothing is kept of the steps.

    Shape: ``gates (M, G)`` of which each run shows its own, ``weight (G, H)``, ``attention (N,)`` or empty -> ``(B, H)``.
    """
    if torch.is_grad_enabled() or not fits(gates, weight):
        states = recurrence(view(gates, runs), weight, attention, runs.offsets, cell)
        return final_states(states, runs)
    order = runs.lengths.argsort(descending=True, stable=True)
    starts = runs.starts if isinstance(runs, Views) else runs.offsets[:-1]
    states = gates.new_empty(runs.size, weight.shape[1])
    recurrence_cpu.last(gates, weight, attention, runs.offsets, starts, order, CELLS.index(cell), states)
    return states


def final_states(states: Tensor, runs: Runs) -> Tensor:
    """Each run's last state; 0 for an empty run. Shape: ``(N, H) -> (B, H)``."""
    if not len(states):
        return states.new_zeros(runs.size, states.shape[1])
    last = states.index_select(0, (runs.offsets[1:] - 1).clamp(min=0))
    return torch.where(runs.lengths.unsqueeze(1) > 0, last, 0)


def _loops_for(gates: Tensor, weight: Tensor) -> ModuleType | None:
    """The written-out loops for these tensors, if there are any."""
    if fits(gates, weight):
        return recurrence_cpu
    if gates.is_cuda and gates.dtype == weight.dtype == torch.float32 and find_spec("triton"):
        return import_module("deep_interest.ops.recurrence_cuda")
    return None


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


class _Loops(torch.autograd.Function):
    """The recurrence by written-out loops, forward and backward."""

    @staticmethod
    def forward(ctx, gates, weight, attention, offsets, cell: Cell, loops: ModuleType) -> Tensor:
        order = offsets.diff().argsort(descending=True, stable=True)
        hidden = weight.shape[1]
        found = [gates.new_empty(len(gates), width) for width in (hidden, gates.shape[1], hidden)]
        loops.forward(gates, weight, attention, offsets, order, CELLS.index(cell), *found)
        ctx.save_for_backward(weight, attention, offsets, order, *found)
        ctx.cell, ctx.loops = CELLS.index(cell), loops
        return found[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_states: Tensor):
        weight, attention, offsets, order, *found = ctx.saved_tensors
        grad_gates, grad_recalled = (rows.new_empty(rows.shape) for rows in found[1:])
        grad_attention = torch.zeros_like(attention)
        results = grad_gates, grad_recalled, grad_attention
        ctx.loops.backward(grad_states, weight, attention, offsets, order, ctx.cell, *found, *results)
        grad_weight = ctx.loops.weight_gradient(grad_gates, grad_recalled, found[0], offsets)
        return grad_gates, grad_weight, grad_attention, None, None, None
