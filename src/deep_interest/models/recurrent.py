"""GRU, AGRU and AUGRU over jagged histories (DIEN): no step is computed for padding."""

import torch
from torch import Tensor, nn

from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.gru import GRUWeights, Variant, gru, gru_last_states
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
        variant: kind of the update gate.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(self, inputs: int, hidden: int, *, variant: Variant = "gru") -> None:
        super().__init__()
        self.variant: Variant = variant
        gates = 2 if variant == "agru" else 3  # reset, update where there is one, candidate state
        self.input_weight = nn.Parameter(torch.empty(gates * hidden, inputs))
        self.state_weight = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(gates * hidden))
        for weight in (self.input_weight, self.state_weight):
            for gate in weight.data.chunk(gates):
                nn.init.xavier_uniform_(gate)

    def forward(self, inputs: Tensor, histories: Jagged, attention: Tensor | None = None) -> Tensor:
        """Compute the state after every behaviour.

        Shape: ``inputs (M, inputs)`` with N behaviours in the histories, ``attention (N,)`` (not for a GRU) -> ``(N, hidden)``.
        """
        a = _or_empty(attention, inputs)
        return gru(inputs, self._weights, a, histories, self.variant, accumulator=self.accumulator)

    def last(self, inputs: Tensor, histories: Jagged, attention: Tensor | None = None) -> Tensor:
        """Compute the last state of each history, 0 for an empty one. Shape: as in `forward` -> ``(B, hidden)``."""
        a = _or_empty(attention, inputs)
        return gru_last_states(
            inputs, self._weights, a, histories, self.variant, accumulator=self.accumulator
        )

    @property
    def _weights(self) -> GRUWeights:
        return GRUWeights(self.input_weight, self.state_weight, self.bias)


def _or_empty(attention: Tensor | None, inputs: Tensor) -> Tensor:
    return inputs.new_empty(0) if attention is None else attention
