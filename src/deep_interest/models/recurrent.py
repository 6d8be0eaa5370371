"""GRU, AGRU and AUGRU over jagged histories (DIEN): no step is computed for padding."""

from typing import Literal

import torch
from torch import Tensor, nn

from deep_interest.models import recurrent_kernel
from deep_interest.models.batch import Batch

Cell = Literal["gru", "agru", "augru", "augru_code"]
CELLS: tuple[Cell, ...] = ("gru", "agru", "augru", "augru_code")


class GRU(nn.Module):
    """A GRU whose update gate may be steered by attention.

    With ``i_t`` the input and ``a_t`` the attention, DIEN's equations are::

        u_t = σ(W^u i_t + U^u h_{t-1} + b^u)          r_t = σ(W^r i_t + U^r h_{t-1} + b^r)        eq. 3, 4
        h~_t = tanh(W^h i_t + r_t ∘ U^h h_{t-1} + b^h)                                            eq. 5
        h_t = (1 - z_t) ∘ h_{t-1} + z_t ∘ h~_t                                                    eq. 6

    where ``z_t`` is ``u_t`` for a GRU, ``a_t`` for AGRU (eq. 11; it has no update gate of its own), ``a_t u_t`` for
    AUGRU (eq. 12, 13), and ``1 - (1 - a_t)(1 - u_t)`` for the AUGRU of the authors' code, which scales the gate that
    keeps the state, so that ``a_t = 0`` is a plain GRU.

    Args:
        inputs: width of ``i_t``.
        hidden: width of the state.
        cell: what the update gate is.
    """

    def __init__(self, inputs: int, hidden: int, *, cell: Cell = "gru") -> None:
        super().__init__()
        self.cell: Cell = cell
        gates = 2 if cell == "agru" else 3  # reset, update where there is one, candidate state
        self.input_weight = nn.Parameter(torch.empty(gates * hidden, inputs))
        self.state_weight = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(gates * hidden))
        for weight in (self.input_weight, self.state_weight):
            for gate in weight.data.chunk(gates):
                nn.init.xavier_uniform_(gate)

    def forward(self, inputs: Tensor, batch: Batch, attention: Tensor | None = None) -> Tensor:
        """The state after every behaviour.

        Shape: ``inputs (N, inputs)``, ``attention (N,)`` (not for a GRU) -> ``(N, hidden)``.
        """
        gates = torch.addmm(self.bias, inputs, self.input_weight.t())
        if attention is None:
            attention = inputs.new_empty(0)
        compiled = gates.device.type == "cpu" and gates.dtype == torch.float32
        recurrence = _Compiled.apply if compiled else plain_recurrence
        return recurrence(gates, self.state_weight, attention, batch.offsets, self.cell)


def final_states(states: Tensor, batch: Batch) -> Tensor:
    """Each sample's last state; 0 for an empty history. Shape: ``(N, H) -> (B, H)``."""
    last = torch.where(batch.lengths > 0, batch.offsets[1:] - 1, len(states))
    return torch.cat([states, states.new_zeros(1, states.shape[1])])[last]


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
    """The recurrence by `recurrent_kernel`; the backward pass is written out there."""

    @staticmethod
    def forward(ctx, gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, cell: Cell) -> Tensor:
        hidden = weight.shape[1]
        order = offsets.diff().argsort(descending=True, stable=True)
        states, recalled = gates.new_empty(len(gates), hidden), gates.new_empty(len(gates), hidden)
        activated = torch.empty_like(gates)
        recurrent_kernel.run(
            recurrent_kernel.forward,
            *_arrays(gates.contiguous(), weight.t().contiguous(), attention, offsets, order), CELLS.index(cell),
            *_arrays(states, activated, recalled), threads=torch.get_num_threads(),
        )  # fmt: skip
        ctx.save_for_backward(weight, attention, offsets, order, states, activated, recalled)
        ctx.cell = cell
        return states

    @staticmethod
    def backward(ctx, grad_states: Tensor):
        weight, attention, offsets, order, states, activated, recalled = ctx.saved_tensors
        hidden = weight.shape[1]
        grad_gates, grad_recalled = torch.empty_like(activated), torch.empty_like(recalled)
        grad_attention = torch.zeros_like(attention)
        recurrent_kernel.run(
            recurrent_kernel.backward,
            *_arrays(grad_states.contiguous(), weight.contiguous(), attention, offsets, order), CELLS.index(ctx.cell),
            *_arrays(states, activated, recalled, grad_gates, grad_recalled, grad_attention),
            threads=torch.get_num_threads(),
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


def _arrays(*tensors: Tensor):
    return [tensor.detach().numpy() for tensor in tensors]
