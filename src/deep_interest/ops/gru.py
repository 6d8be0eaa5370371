"""The GRU over jagged histories, whose update gate attention may control (DIEN eq. 3 to 6, 10 to 13)."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops import gru_cpu
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.gru_step import GRUInputs, GRUSaved
from deep_interest.ops.mlp import Layer, Layers, mlp
from deep_interest.ops.runtime.dispatch import can_use_compiled
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.segments import expand

Variant = Literal["gru", "agru", "augru", "augru_code"]
VARIANTS: tuple[Variant, ...] = ("gru", "agru", "augru", "augru_code")


class GRUWeights(NamedTuple):
    """The parameters of a GRU, in the order in which a module holds them; G = 3 H, or 2 H for AGRU.

    Attributes:
        inputs: ``(G, I)`` weights of the inputs: reset gate, update gate (not for AGRU), candidate state.
        state: ``(G, H)`` weights of the state.
        bias: ``(G,)``.
    """

    inputs: Tensor
    state: Tensor
    bias: Tensor

    def gates(self, inputs: Tensor, accumulator: GradientAccumulator | None) -> Tensor:
        """Return what the inputs add to the gates. Shape: ``(N, I) -> (N, G)``."""
        return mlp(inputs, Layers([Layer(self.inputs, self.bias)]), accumulator=accumulator)


def gru(
    inputs: Tensor,
    weights: GRUWeights,
    attention: Tensor,
    jagged: Jagged,
    variant: Variant,
    *,
    accumulator: GradientAccumulator | None = None,
) -> Tensor:
    """Compute the state after every behaviour; `models.recurrent.GRU` has the equations.

    Args:
        inputs: ``(M, I)`` behaviours.
        weights: parameters.
        attention: ``(N,)``; empty for a GRU.
        jagged: histories, or histories that several samples share.
        variant: how attention controls the update gate.
        accumulator: where to add the gradients of the parameters; None to return them to autograd.

    Returns:
        ``(N, H)``.
    """
    return _gru(inputs, weights, attention, jagged, variant, accumulator, last=False)


def gru_last_states(
    inputs: Tensor,
    weights: GRUWeights,
    attention: Tensor,
    jagged: Jagged,
    variant: Variant,
    *,
    accumulator: GradientAccumulator | None = None,
) -> Tensor:
    """Compute the last state of each history, 0 for an empty one.

    Without gradients, nothing of the other steps is kept.

    Args:
        inputs, weights, attention, jagged, variant, accumulator: as in `gru`.

    Returns:
        ``(B, H)``.
    """
    if torch.is_grad_enabled() or not can_use_compiled(inputs, *weights):
        return _gru(inputs, weights, attention, jagged, variant, accumulator, last=True)
    states, gates = empty(inputs, jagged.size, weights.state.shape[1]), weights.gates(inputs, accumulator)
    code = VARIANTS.index(variant)
    if isinstance(jagged, SharedSegments) and variant != "gru":
        data = GRUInputs(gates, attention, jagged.offsets, jagged.starts)
        if gru_cpu.shared_last_states(data, jagged.starts, weights.state, code, states):
            return states
    order = jagged.lengths.argsort(descending=True, stable=True)
    starts = jagged.starts if isinstance(jagged, SharedSegments) else jagged.offsets[:-1]
    gru_cpu.last_states(
        GRUInputs(gates, attention, jagged.offsets, order), starts, weights.state, code, states
    )
    return states


def _gru(
    inputs: Tensor, weights: GRUWeights, attention: Tensor, jagged: Jagged, variant: Variant,
    accumulator: GradientAccumulator | None, *, last: bool,
) -> Tensor:  # fmt: skip
    """Compute all states, or the last state of each history."""
    if can_use_compiled(inputs, *weights) and not isinstance(jagged, SharedSegments):
        return _GRU.apply(inputs, attention, jagged, variant, last, gru_cpu, accumulator, *weights)
    gates = expand(
        weights.gates(inputs, accumulator), jagged
    )  # one product per behaviour, however many histories share it
    backend = _backend_for(gates, weights.state)
    if backend is not None:
        return _GRU.apply(gates, attention, jagged, variant, last, backend, accumulator, weights.state)
    states = plain_gru(gates, weights.state, attention, jagged.offsets, variant)
    return final_states(states, jagged) if last else states


def final_states(states: Tensor, jagged: Jagged) -> Tensor:
    """Return the last state of each history, 0 for an empty one. Shape: ``(N, H) -> (B, H)``."""
    if not len(states):
        return states.new_zeros(jagged.size, states.shape[1])
    last = states.index_select(0, (jagged.offsets[1:] - 1).clamp(min=0))
    return torch.where(jagged.lengths.unsqueeze(1) > 0, last, 0)


def _backend_for(gates: Tensor, weight: Tensor) -> ModuleType | None:
    """Return the backend for these tensors; None for the plain implementation."""
    if can_use_compiled(gates, weight):
        return gru_cpu
    on_gpu = gates.is_cuda and gates.dtype == weight.dtype == torch.float32
    if on_gpu and current_engine() == "compiled" and find_spec("triton"):
        return import_module("deep_interest.ops.kernels.gru_triton")
    return None


def plain_gru(gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, variant: Variant) -> Tensor:
    """Compute all states step by step with torch operations, for any device and dtype.

    Shape: ``gates (N, G)``, ``weight (G, H)``, ``attention (N,)``, ``offsets (B + 1,)`` -> ``(N, H)``.
    """
    hidden = weight.shape[1]
    lengths, order = offsets.diff().sort(descending=True, stable=True)
    starts = offsets[order]
    state = gates.new_zeros(len(order), hidden)
    positions, states = [], []
    for t in range(int(lengths[0]) if len(lengths) else 0):
        active = int((lengths > t).sum())
        now = starts[:active] + t
        state = state[:active]
        inputs, recurrent = gates[now], state @ weight.t()
        soft = torch.sigmoid(inputs[:, :-hidden] + recurrent[:, :-hidden])
        candidate = torch.tanh(inputs[:, -hidden:] + soft[:, :hidden] * recurrent[:, -hidden:])
        update = _update_gate(
            variant, soft[:, hidden:], attention[now].unsqueeze(1) if len(attention) else None
        )
        state = (1 - update) * state + update * candidate
        positions.append(now)
        states.append(state)
    if not states:
        return gates[:, :hidden]  # all histories are empty
    return torch.cat(states)[torch.cat(positions).argsort()]


def _update_gate(variant: Variant, update: Tensor, attention: Tensor | None) -> Tensor:
    """Return ``z_t``, the weight of the candidate state in the new state: ``(b, H)``, or ``(b, 1)`` for AGRU."""
    if attention is None:
        return update
    if variant == "agru":
        return attention
    return attention * update if variant == "augru" else 1 - (1 - attention) * (1 - update)


class _GRU(torch.autograd.Function):
    """The GRU by a backend, forward and backward; with the weights of the state alone, the inputs are the gates."""

    @staticmethod
    def forward(
        ctx, inputs, attention, jagged: Jagged, variant: Variant, last: bool, backend: ModuleType,
        accumulator: GradientAccumulator | None, *weights: Tensor,
    ) -> Tensor:  # fmt: skip
        offsets = jagged.offsets
        order = offsets.diff().argsort(descending=True, stable=True)
        state_weight = weights[0] if len(weights) == 1 else weights[1]
        width, hidden = state_weight.shape
        saved = GRUSaved(*(empty(inputs, len(inputs), columns) for columns in (hidden, width, hidden)))
        backend.forward(GRUInputs(inputs, attention, offsets, order), weights, VARIANTS.index(variant), saved)
        data = GRUInputs(inputs if len(weights) > 1 else None, attention, offsets, order)
        ctx.save_for_backward(*data, *saved, *weights)  # the weights too: autograd detects in-place changes
        ctx.variant, ctx.last, ctx.backend = VARIANTS.index(variant), last, backend
        ctx.weights, ctx.accumulator = weights, accumulator
        return final_states(saved.states, jagged) if last else saved.states

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_states: Tensor):
        tensors = ctx.saved_tensors[: -len(ctx.weights)]
        inputs, saved = GRUInputs(*tensors[:4]), GRUSaved(*tensors[4:])
        grad_inputs, grad_weights, grad_attention = ctx.backend.backward(
            grad_states, ctx.last, inputs, ctx.weights, ctx.variant, saved, ctx.accumulator
        )
        return grad_inputs, grad_attention, None, None, None, None, None, *grad_weights
