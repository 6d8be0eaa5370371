"""The loops of `gru.gru` for CPUs, compiled by numba: float32, no padding, states kept in the cache.

Some histories of similar length are walked together; the threads share these groups, so that the result does not depend
on their number.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from deep_interest.ops.kernels.gemm import pack
from deep_interest.ops.kernels.gru import GROUP_SIZE, gru_backward, gru_forward, gru_last_forward
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import MIN_PARTITION_WORK, run_kernel
from deep_interest.ops.weights import GradientSums


def forward(
    inputs: Tensor, weights: Sequence[Tensor], attention: Tensor, offsets: Tensor, order: Tensor, cell: int,
    states: Tensor, activated: Tensor, recalled: Tensor,
) -> None:  # fmt: skip
    """Fill the states, and what `backward` needs to know of them.

    Args:
        inputs: ``(N, I)``; or ``(N, G)`` what they add to the gates, bias included.
        weights: ``(G, I)`` of the inputs, ``(G, H)`` of the state, and the bias ``(G,)``; or the state's alone.
        attention: ``(N,)``, or empty for a GRU.
        offsets: ``(B + 1,)``.
        order: ``(B,)`` samples by falling length.
        cell: GRU, AGRU, AUGRU or AUGRU_CODE.
        states: ``(N, H)``.
        activated: ``(N, G)`` reset, update where there is one, candidate.
        recalled: ``(N, H)`` U^h h_{t-1}.
    """
    of_inputs, of_state, *others = as_arrays(*_with_empty_input_weights(weights), attention, offsets, order)
    rights, work = (pack(of_inputs.T), pack(of_state.T)), _work(order, len(inputs), weights)
    run_kernel(
        gru_forward,
        *as_arrays(inputs),
        rights,
        *others,
        cell,
        *as_arrays(states, activated, recalled),
        work=work,
    )


def backward(
    grad_states: Tensor, last: bool, inputs: Tensor | None, weights: Sequence[Tensor], attention: Tensor, offsets: Tensor,
    order: Tensor, cell: int, states: Tensor, activated: Tensor, recalled: Tensor,
) -> tuple[Tensor, list[Tensor | None], Tensor]:  # fmt: skip
    """The gradients of the inputs, the weights and the attention; ``grad_states (N, H)``, or ``(B, H)`` if only the last states
    have any; the rest as of `forward`.

    ``inputs`` may be left out where they are the gates. A weight whose gradient was added to its own already has None, see
    `gradients.adding_to_gradients`.
    """
    rows, work = len(states), _work(order, len(states), weights)
    if inputs is None:
        inputs = states.new_empty(0, 0)
        to_inputs = empty(activated, *activated.shape)
    else:
        to_inputs = empty(states, rows, inputs.shape[1])
    sums, to_attention = GradientSums.of(weights, work), torch.zeros_like(attention)
    of_inputs, of_state, *others = as_arrays(
        *_with_empty_input_weights(weights)[:2], attention, offsets, order
    )
    given, rights = as_arrays(grad_states, inputs), (pack(of_inputs), pack(of_state))
    found = as_arrays(states, activated, recalled, to_inputs, sums.parts, to_attention)
    run_kernel(gru_backward, last, *given, rights, *others, cell, *found, work=work)
    return to_inputs, sums.gradients(), to_attention


def _with_empty_input_weights(weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """The weights; those of inputs that are the gates are empty."""
    if len(weights) == 3:
        return weights
    (weight,) = weights
    return weight.new_empty(len(weight), 0), weight, weight.new_empty(0)


def last_states(
    gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, starts: Tensor, order: Tensor, cell: int, states: Tensor
) -> None:  # fmt: skip
    """Fill the last states ``(B, H)``, 0 of an empty history; nothing is kept for `backward`.

    As `forward`, but for ``gates (M, G)``, in which history b has the rows from ``starts[b]`` on, as others may.
    """
    work = _work(order, int(offsets[-1]), [weight])
    of_state, gates, *others, states = as_arrays(weight, gates, attention, offsets, starts, order, states)
    run_kernel(gru_last_forward, gates, pack(of_state.T), *others, cell, states, work=work)


def _work(order: Tensor, places: int, weights: Sequence[Tensor]) -> int:
    """The work as `parts_of` takes it, but never so much that a part is left without a group of histories."""
    numbers = sum(weight.numel() for weight in weights)
    groups = (len(order) + GROUP_SIZE - 1) // GROUP_SIZE
    return min(places * (2 * len(weights[0]) + numbers // 32), groups * MIN_PARTITION_WORK)
