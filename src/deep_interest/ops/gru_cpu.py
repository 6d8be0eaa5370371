"""The CPU backend of `gru.gru`: tensors as arguments of the kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.kernels.gemm import pack
from deep_interest.ops.kernels.gru import GROUP_SIZE, GRUGrads, gru_backward, gru_forward, gru_last_forward
from deep_interest.ops.kernels.gru_lanes import gru_shared_forward, pack_units, shared_groups
from deep_interest.ops.kernels.gru_step import GRUInputs, GRUSaved
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import MIN_PARTITION_WORK, run_kernel
from deep_interest.ops.weights import GradientSums

MIN_SHARING = 4  # segments with the same behaviours, on average, from which on they advance together


def forward(inputs: GRUInputs, weights: Sequence[Tensor], variant: int, saved: GRUSaved) -> None:
    """Compute all states.

    Args:
        inputs: tensors of `GRUInputs`.
        weights: ``(G, I)`` of the inputs, ``(G, H)`` of the state, and the bias ``(G,)``; of the state alone if
            the inputs are the gates.
        variant: GRU, AGRU, AUGRU or AUGRU_CODE.
        saved: OUT tensors of `GRUSaved`.
    """
    input_weight, state_weight, bias = as_arrays(*_with_empty_input_weights(weights))
    packed, work = (
        (pack(input_weight.T), pack(state_weight.T)),
        _work(inputs.order, len(inputs.values), weights),
    )
    arrays, outputs = GRUInputs(*as_arrays(*inputs)), GRUSaved(*as_arrays(*saved))
    run_kernel(gru_forward, arrays, packed, bias, variant, outputs, work=work)


def backward(
    grad_states: Tensor, last: bool, inputs: GRUInputs, weights: Sequence[Tensor], variant: int, saved: GRUSaved,
    accumulator: GradientAccumulator | None,
) -> tuple[Tensor, list[Tensor | None], Tensor]:  # fmt: skip
    """Compute the gradients of `forward`.

    Args:
        grad_states: ``(N, H)``; or ``(B, H)`` if only the last states have gradients.
        last: whether only the last states have gradients.
        inputs: as there; ``values`` is None if they are the gates.
        weights, variant, saved: as there.
        accumulator: where to add the gradients of the weights; None to return them.

    Returns:
        The gradients of the inputs, of the weights (None where they are added to the accumulator's) and of the
        attention.
    """
    states, values = saved.states, inputs.values
    work = _work(inputs.order, len(states), weights)
    if values is None:
        values = states.new_empty(0, 0)
        grad_values = empty(saved.gates, *saved.gates.shape)
    else:
        grad_values = empty(states, len(states), values.shape[1])
    sums, grad_attention = GradientSums.make(weights, work, accumulator), torch.zeros_like(inputs.attention)
    input_weight, state_weight = as_arrays(*_with_empty_input_weights(weights)[:2])
    arrays = GRUInputs(*as_arrays(values, *inputs[1:]))
    grads = GRUGrads(*as_arrays(grad_values, sums.partitions, grad_attention))
    run_kernel(
        gru_backward, *as_arrays(grad_states), last, arrays, (pack(input_weight), pack(state_weight)), variant,
        GRUSaved(*as_arrays(*saved)), grads, work=work,
    )  # fmt: skip
    return grad_values, sums.gradients(), grad_attention


def last_states(
    inputs: GRUInputs, starts: Tensor, state_weight: Tensor, variant: int, states: Tensor
) -> None:
    """Compute the last states only; nothing is kept for `backward`.

    Args:
        inputs: tensors of `GRUInputs`, whose ``values (M, G)`` are the gates.
        starts: ``(B,)`` first row of each history in ``values``, which several histories may share.
        state_weight: ``(G, H)``.
        variant: GRU, AGRU, AUGRU or AUGRU_CODE.
        states: OUT ``(B, H)``; 0 for an empty history.
    """
    work = _work(inputs.order, int(inputs.offsets[-1]), [state_weight])
    weight, starts_array, out = as_arrays(state_weight, starts, states)
    arrays = GRUInputs(*as_arrays(*inputs))
    run_kernel(gru_last_forward, arrays, starts_array, pack(weight.T), variant, out, work=work)


def shared_last_states(
    inputs: GRUInputs, starts: Tensor, state_weight: Tensor, variant: int, states: Tensor
) -> bool:
    """As `last_states` for an attention-gated GRU, if several segments in a row have the same behaviours; returns whether it has run."""
    arrays, (weight, first_rows, out) = (
        GRUInputs(*as_arrays(*inputs)),
        as_arrays(state_weight, starts, states),
    )
    groups = shared_groups(arrays.offsets, first_rows)
    if MIN_SHARING * len(groups) > len(first_rows):
        return False
    work = _work(inputs.order, int(arrays.offsets[-1]), [state_weight])
    run_kernel(gru_shared_forward, arrays, first_rows, groups, pack_units(weight), variant, out, work=work)
    return True


def _with_empty_input_weights(weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return three weights; those of inputs that are the gates are empty."""
    if len(weights) == 3:
        return weights
    (weight,) = weights
    return weight.new_empty(len(weight), 0), weight, weight.new_empty(0)


def _work(order: Tensor, steps: int, weights: Sequence[Tensor]) -> int:
    """Return the work for `partition_count`, limited so that every partition has a group of histories."""
    size = sum(weight.numel() for weight in weights)
    groups = (len(order) + GROUP_SIZE - 1) // GROUP_SIZE
    return min(steps * (2 * len(weights[0]) + size // 32), groups * MIN_PARTITION_WORK)
