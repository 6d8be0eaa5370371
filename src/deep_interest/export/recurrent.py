"""Recurrent layers over the history of one user, as loops that `torch.export` and ONNX keep as such (`scan`)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from deep_interest.export.request import History, Size
from deep_interest.models.recurrent import GRU

Step = Callable[..., list[Tensor]]


class States(NamedTuple):
    """States of a GRU.

    Attributes:
        last: ``(R, H)`` after the newest behaviour.
        every: ``(T + 1, R, H)`` after each behaviour.
    """

    last: Tensor
    every: Tensor


def gru_states(
    gru: GRU,
    inputs: Tensor,
    history: History,
    attention: Tensor | None = None,
    *,
    scales_inputs: bool = False,
) -> States:
    """Compute the states of a GRU that R candidates may control (DIEN eq. 3 to 6, 10 to 13, see
    `models.recurrent.GRU`).

    Args:
        gru: trained module.
        inputs: ``(T + 1, inputs)``.
        history: the behaviours; the padding leaves the state at 0.
        attention: ``(R, T + 1)``; None for R = 1 without attention.
        scales_inputs: whether attention multiplies the inputs (AIGRU), so that the gates are those of a GRU.
    """
    hidden, variant = gru.state_weight.shape[1], gru.variant
    rows: Size = 1 if attention is None else attention.shape[0]
    weights = inputs.new_ones(history.length + 1, 1) if attention is None else attention.t()

    def step(state, gates, weight, real, state_weight, bias, *_):
        weight = weight.unsqueeze(1)  # (R, 1)
        gates = (weight * gates if scales_inputs else gates) + bias
        recurrent = state @ state_weight.t()
        soft = torch.sigmoid(gates[..., :-hidden] + recurrent[:, :-hidden])
        proposed = torch.tanh(gates[..., -hidden:] + soft[:, :hidden] * recurrent[:, -hidden:])
        update = real * _update_gate(variant, soft[:, hidden:], weight)
        state = (1 - update) * state + update * proposed
        return [state, state.clone()]

    last, every = _scan(
        step, [inputs.new_zeros(rows, hidden)], [inputs @ gru.input_weight.t(), weights.contiguous(), history.real],
        [gru.state_weight, gru.bias], (history.length, rows),
    )  # fmt: skip
    return States(last, every)


def _update_gate(variant: str, update: Tensor, attention: Tensor) -> Tensor:
    if variant == "gru":
        return update
    if variant == "agru":
        return attention
    return attention * update if variant == "augru" else 1 - (1 - attention) * (1 - update)


def lstm_last_state(lstm: nn.LSTM, history: History) -> Tensor:
    """Return the last state of an LSTM with one layer, ``(1, H)``; 0 without behaviours."""
    input_weight, state_weight, input_bias, state_bias = (
        lstm.get_parameter(f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )

    def step(state, memory, gates, real, state_weight, *_):
        enter, forget, proposed, output = (gates + state @ state_weight.t()).chunk(4, dim=1)
        updated = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(proposed)
        memory = memory + real * (updated - memory)
        state = real * torch.sigmoid(output) * torch.tanh(memory)
        return [state, memory]

    gates = history.vectors @ input_weight.t() + input_bias + state_bias
    zeros = history.vectors.new_zeros(1, lstm.hidden_size)
    return _scan(step, [zeros, zeros.clone()], [gates, history.real], [state_weight], (history.length,))[0]


def _scan(
    step: Step,
    states: Sequence[Tensor],
    rows: Sequence[Tensor],
    weights: Sequence[Tensor],
    sizes: tuple[Size, ...],
) -> list[Tensor]:
    """Apply ``step(*states, *row, *weights, …)`` to the rows, one after the other.

    Args:
        step: returns the new states, then the outputs of the row.
        states: states before the first row.
        rows: tensors whose first dimension is that of the loop.
        weights: tensors that every step reads.
        sizes: the numbers that the shapes depend on; AOTInductor allocates the outputs from them.

    Returns:
        The last states, and the outputs of all rows, stacked.
    """
    dynamic = [size for size in sizes if isinstance(size, torch.SymInt)]
    return torch.ops.higher_order.scan(step, list(states), list(rows), [*weights, *dynamic])
