"""The loop of a GRU whose update gate attention may steer, over jagged histories (DIEN eq. 3 to 6, 10 to 13)."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops import gru_cpu
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.mlp import Layer, Layers, mlp
from deep_interest.ops.runtime.dispatch import can_use_compiled
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.segments import expand

Cell = Literal["gru", "agru", "augru", "augru_code"]


CELLS: tuple[Cell, ...] = ("gru", "agru", "augru", "augru_code")


class GRUWeights(NamedTuple):
    """The weights of a GRU, in the order in which a module holds them.

    Attributes:
        inputs: ``(G, I)``; reset, update gate where there is one, candidate state.
        state: ``(G, H)``.
        bias: ``(G,)``.
    """

    inputs: Tensor
    state: Tensor
    bias: Tensor

    def gates(self, inputs: Tensor) -> Tensor:
        """What the inputs add to the gates. Shape: ``(N, I) -> (N, G)``."""
        return mlp(inputs, Layers([Layer(self.inputs, self.bias)]))


def gru(inputs: Tensor, weights: GRUWeights, attention: Tensor, runs: Jagged, cell: Cell) -> Tensor:
    """The state after every behaviour; `models.recurrent.GRU` has the equations.

    Shape: ``inputs (M, I)`` of which each run shows its own, ``attention (N,)`` or empty -> ``(N, H)``.
    """
    return _gru(inputs, weights, attention, runs, cell, last=False)


def _gru(
    inputs: Tensor, weights: GRUWeights, attention: Tensor, runs: Jagged, cell: Cell, *, last: bool
) -> Tensor:
    """All states, or each run's last one."""
    if can_use_compiled(inputs, *weights) and not isinstance(runs, SharedSegments):
        return _GRU.apply(inputs, attention, runs, cell, last, gru_cpu, *weights)
    gates = expand(weights.gates(inputs), runs)  # once for each row, however many runs show it
    loops = _backend_for(gates, weights.state)
    if loops is not None:
        return _GRU.apply(gates, attention, runs, cell, last, loops, weights.state)
    states = plain_gru(gates, weights.state, attention, runs.offsets, cell)
    return final_states(states, runs) if last else states


def gru_last_states(
    inputs: Tensor, weights: GRUWeights, attention: Tensor, runs: Jagged, cell: Cell
) -> Tensor:
    """Each run's last state, 0 of an empty run; where no gradients are asked for, nothing is kept of the steps.

    Shape: as of `recurrence` -> ``(B, H)``.
    """
    if torch.is_grad_enabled() or not can_use_compiled(inputs, *weights):
        return _gru(inputs, weights, attention, runs, cell, last=True)
    order = runs.lengths.argsort(descending=True, stable=True)
    starts = runs.starts if isinstance(runs, SharedSegments) else runs.offsets[:-1]
    states = empty(inputs, runs.size, weights.state.shape[1])
    gates, number = weights.gates(inputs), CELLS.index(cell)
    gru_cpu.last_states(gates, weights.state, attention, runs.offsets, starts, order, number, states)
    return states


def final_states(states: Tensor, runs: Jagged) -> Tensor:
    """Each run's last state; 0 for an empty run. Shape: ``(N, H) -> (B, H)``."""
    if not len(states):
        return states.new_zeros(runs.size, states.shape[1])
    last = states.index_select(0, (runs.offsets[1:] - 1).clamp(min=0))
    return torch.where(runs.lengths.unsqueeze(1) > 0, last, 0)


def _backend_for(gates: Tensor, weight: Tensor) -> ModuleType | None:
    """The written-out loops for these tensors, if there are any."""
    if can_use_compiled(gates, weight):
        return gru_cpu
    on_gpu = gates.is_cuda and gates.dtype == weight.dtype == torch.float32
    if on_gpu and current_engine() == "compiled" and find_spec("triton"):
        return import_module("deep_interest.ops.kernels.gru_triton")
    return None


def plain_gru(gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, cell: Cell) -> Tensor:
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
        update = _update_gate(cell, soft[:, hidden:], attention[now].unsqueeze(1) if len(attention) else None)
        state = (1 - update) * state + update * candidate
        rows.append(now)
        states.append(state)
    if not states:
        return gates[:, :hidden]  # no behaviour at all
    return torch.cat(states)[torch.cat(rows).argsort()]


def _update_gate(cell: Cell, gate: Tensor, attention: Tensor | None) -> Tensor:
    """``z_t``, the share of the candidate state in the new state; ``(b, H)``, or ``(b, 1)`` for AGRU."""
    if attention is None:
        return gate
    if cell == "agru":
        return attention
    return attention * gate if cell == "augru" else 1 - (1 - attention) * (1 - gate)


class _GRU(torch.autograd.Function):
    """The recurrence by written-out loops, forward and backward; without weights of the inputs, these are the gates."""

    @staticmethod
    def forward(
        ctx, inputs, attention, runs: Jagged, cell: Cell, last: bool, loops: ModuleType, *weights: Tensor
    ) -> Tensor:
        offsets = runs.offsets
        order = offsets.diff().argsort(descending=True, stable=True)
        state_weight = weights[0] if len(weights) == 1 else weights[1]
        width, hidden = state_weight.shape
        found = [empty(inputs, len(inputs), columns) for columns in (hidden, width, hidden)]
        loops.forward(inputs, weights, attention, offsets, order, CELLS.index(cell), *found)
        kept = [inputs if len(weights) > 1 else None, attention, offsets, order, *found]
        ctx.save_for_backward(
            *kept, *weights
        )  # the weights, too, so that autograd sees if torch changes them
        ctx.cell, ctx.last, ctx.loops, ctx.weights = CELLS.index(cell), last, loops, weights
        return final_states(found[0], runs) if last else found[0]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_states: Tensor):
        inputs, attention, offsets, order, *found = ctx.saved_tensors[: -len(ctx.weights)]
        to_inputs, to_weights, to_attention = ctx.loops.backward(
            grad_states, ctx.last, inputs, ctx.weights, attention, offsets, order, ctx.cell, *found
        )
        return to_inputs, to_attention, None, None, None, None, *to_weights
