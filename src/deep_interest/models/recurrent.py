"""GRU, AGRU and AUGRU over jagged histories (DIEN): no step is computed for padding."""

import torch
from torch import Tensor, nn

from deep_interest.ops.gru import Cell, GRUWeights, gru, gru_last_states
from deep_interest.ops.jagged import Jagged


class GRU(nn.Module):
    """A GRU whose update gate may be scaled or replaced by attention.

    With ``i_t`` the input and ``a_t`` the attention, DIEN's equations are::

        u_t = σ(W^u i_t + U^u h_{t-1} + b^u)          r_t = σ(W^r i_t + U^r h_{t-1} + b^r)        eq. 3, 4
        h~_t = tanh(W^h i_t + r_t ∘ U^h h_{t-1} + b^h)                                            eq. 5
        h_t = (1 - z_t) ∘ h_{t-1} + z_t ∘ h~_t                                                    eq. 6

    where ``z_t`` is ``u_t`` for a GRU, ``a_t`` for AGRU (eq. 11; it has no update gate), ``a_t u_t`` for AUGRU (eq. 12, 13),
    and ``1 - (1 - a_t)(1 - u_t)`` for the AUGRU of the authors' code, which scales the gate that keeps the state, so that
    ``a_t = 0`` gives a plain GRU.

    Args:
        inputs: width of ``i_t``.
        hidden: width of the state.
        cell: kind of the update gate.
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

    def forward(self, inputs: Tensor, runs: Jagged, attention: Tensor | None = None) -> Tensor:
        """The state after every behaviour.

        Shape: ``inputs (M, inputs)`` of which each run shows its own, ``attention (N,)`` (not for a GRU) -> ``(N, hidden)``.
        """
        return gru(inputs, self._weights, _or_empty(attention, inputs), runs, self.cell)

    def last(self, inputs: Tensor, runs: Jagged, attention: Tensor | None = None) -> Tensor:
        """Each sample's last state; 0 for an empty history. Shape: as of `forward` -> ``(B, hidden)``."""
        return gru_last_states(inputs, self._weights, _or_empty(attention, inputs), runs, self.cell)

    @property
    def _weights(self) -> GRUWeights:
        return GRUWeights(self.input_weight, self.state_weight, self.bias)


def _or_empty(attention: Tensor | None, inputs: Tensor) -> Tensor:
    return inputs.new_empty(0) if attention is None else attention
