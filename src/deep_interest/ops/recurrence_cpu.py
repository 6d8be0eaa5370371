"""The loops of `recurrence.recurrence` for CPUs, compiled by numba: float32, no padding, states kept in the cache.

Some histories of similar length are walked together; the threads share these groups, so that the result does not depend
on their number.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numba import float32, int64, njit
from torch import Tensor

from deep_interest.ops.compiled import ENOUGH, arrays, compiled, exact, run, uncounted
from deep_interest.ops.net import Sums
from deep_interest.ops.net_chunks import add, copy, sums_of
from deep_interest.ops.recurrence_step import GRU, move_last, move_rows, move_rows_back, to_attention
from deep_interest.ops.scratch import empty
from deep_interest.ops.tiles import ROWS, add_product, panels_of, put_product, rows_of

GROUP = 2 * ROWS  # histories walked together at most
CHUNK = 96  # rows of several steps that share a product; GROUP or more


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
    of_inputs, of_state, *others = arrays(*_all_three(weights), attention, offsets, order)
    rights, work = (panels_of(of_inputs.T), panels_of(of_state.T)), _work(order, len(inputs), weights)
    run(_forward, *arrays(inputs), rights, *others, cell, *arrays(states, activated, recalled), work=work)


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
    sums, to_attention = Sums.of(weights, work), torch.zeros_like(attention)
    of_inputs, of_state, *others = arrays(*_all_three(weights)[:2], attention, offsets, order)
    given, rights = arrays(grad_states, inputs), (panels_of(of_inputs), panels_of(of_state))
    found = arrays(states, activated, recalled, to_inputs, sums.parts, to_attention)
    run(_backward, last, *given, rights, *others, cell, *found, work=work)
    return to_inputs, sums.gradients(), to_attention


def _all_three(weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """The weights; those of inputs that are the gates are empty."""
    if len(weights) == 3:
        return weights
    (weight,) = weights
    return weight.new_empty(len(weight), 0), weight, weight.new_empty(0)


def last(
    gates: Tensor, weight: Tensor, attention: Tensor, offsets: Tensor, starts: Tensor, order: Tensor, cell: int, states: Tensor
) -> None:  # fmt: skip
    """Fill the last states ``(B, H)``, 0 of an empty history; nothing is kept for `backward`.

    As `forward`, but for ``gates (M, G)``, in which history b has the rows from ``starts[b]`` on, as others may.
    """
    work = _work(order, int(offsets[-1]), [weight])
    of_state, gates, *others, states = arrays(weight, gates, attention, offsets, starts, order, states)
    run(_last, gates, panels_of(of_state.T), *others, cell, states, work=work)


def _work(order: Tensor, places: int, weights: Sequence[Tensor]) -> int:
    """The work as `parts_of` takes it, but never so much that a part is left without a group of histories."""
    numbers = sum(weight.numel() for weight in weights)
    groups = (len(order) + GROUP - 1) // GROUP
    return min(places * (2 * len(weights[0]) + numbers // 32), groups * ENOUGH)


@compiled
def _forward(
    inputs, rights, bias, attention, offsets, order, cell, states, activated, recalled, part, parts,
):  # fmt: skip
    """A part takes every so many-th group of histories; ``rights`` are the weights of inputs and of the state, as panels."""
    input_right, right = rights
    width, hidden = activated.shape[1], states.shape[1]
    inner = input_right.shape[1]  # 0 where the inputs are the gates
    state = np.zeros((GROUP, hidden), float32)
    x, gates, products = rows_of(CHUNK, inner), rows_of(CHUNK, width), rows_of(GROUP, width)
    places = np.empty(GROUP, int64)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        rows = min(size, len(order) - first)
        state[:] = 0
        at = known = 0  # rows of gates that are used up, and that there are
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            if at == known:
                at = 0
                known = _gates_ahead(inputs, input_right, bias, offsets, order, first, rows, t, x, gates)
            products[:rows] = 0
            add_product(state[:rows], right, products[:rows, :width])
            for r in range(rows):
                places[r] = offsets[order[first + r]] + t
            move_rows(
                cell, places[:rows], gates[at:], products, attention, activated, recalled, state, states
            )
            at += rows


@uncounted
def _gates_ahead(inputs, right, bias, offsets, order, first, rows, t, x, gates):
    """Fill ``gates`` with those of the next steps of a group's first rows, as many as there is room for; returns how many."""
    known, inner = 0, right.shape[1]
    while rows and known + rows <= CHUNK:
        for r in range(rows):
            row = inputs[offsets[order[first + r]] + t]
            if inner:
                copy(row, x[known + r])
            else:
                copy(row, gates[known + r])
        known += rows
        t += 1
        while rows and _length(offsets, order, first + rows - 1) <= t:
            rows -= 1
    if inner:
        put_product(bias, x[:known, :inner], right, gates[:known, : len(bias)])
    return known


@compiled
def _last(gates, right, attention, offsets, starts, order, cell, states, part, parts):
    """As `_forward`; a history that ends leaves its state and the group."""
    width, hidden = gates.shape[1], states.shape[1]
    state = np.zeros((GROUP, hidden), float32)
    products = np.zeros((GROUP, width), float32)
    now = np.empty(width, float32)
    of_gates, of_attention = np.empty(GROUP, int64), np.empty(GROUP, int64)
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        most = min(size, len(order) - first)
        rows = most
        state[:] = 0
        for t in range(_length(offsets, order, first)):
            while _length(offsets, order, first + rows - 1) <= t:
                rows -= 1
            products[:rows] = 0
            add_product(state[:rows], right, products[:rows])
            for r in range(rows):
                of_gates[r], of_attention[r] = starts[order[first + r]] + t, offsets[order[first + r]] + t
            move_last(cell, of_gates[:rows], of_attention, gates, products, attention, now, state)
        for r in range(most):
            states[order[first + r]] = state[r]


@compiled
def _backward(
    last, grad_states, inputs, rights, attention, offsets, order, cell, states, activated, recalled,
    to_inputs, sums, grad_attention, part, parts,
):  # fmt: skip
    """As `_forward`; the gradients of the weights, in the order of `forward`, are added to ``sums[part]``."""
    input_right, right = rights
    width, hidden, inner = activated.shape[1], states.shape[1], inputs.shape[1]
    soft = width - hidden
    to_weights = _weights_in(sums_of(sums, part), width, inner, hidden)
    flowing = np.zeros((GROUP, hidden), float32)  # ∂L/∂h_t from later steps
    # gradients of a few steps: in [:soft] before the sigmoids, in [soft:width] of U^h h_{t-1}, in the last H before the tanh
    flows = rows_of(CHUNK, width + hidden)
    x, to_x, before = rows_of(CHUNK, inner), rows_of(CHUNK, inner), rows_of(CHUNK, hidden)
    places = np.empty(CHUNK, int64)
    to_update = np.zeros((GROUP, hidden), float32)
    kept = 0  # rows of flows that weights and inputs have yet to learn of
    size = _group_size(len(order), parts)
    for first in range(part * size, len(order), parts * size):
        most = min(size, len(order) - first)
        rows = 0
        flowing[:] = 0
        for t in range(_length(offsets, order, first) - 1, -1, -1):
            while rows < most and _length(offsets, order, first + rows) > t:
                if last:
                    copy(grad_states[order[first + rows]], flowing[rows])
                rows += 1
            if kept + rows > CHUNK:
                _to_weights(flows[:kept], before, x, to_weights)
                _to_inputs(flows[:kept], input_right, to_x, places, hidden, to_inputs)
                kept = 0
            for r in range(rows):
                places[kept + r] = offsets[order[first + r]] + t
            here = slice(kept, kept + rows)
            move_rows_back(
                cell, t, last, places[here], grad_states, inputs, attention, states, activated, recalled,
                flowing, to_update, before[here], x[here], flows[here],
            )  # fmt: skip
            if cell != GRU:
                for r in range(rows):
                    p = places[kept + r]
                    grad_attention[p] = to_attention(cell, to_update[r], activated[p, soft - hidden : soft])
            add_product(flows[kept : kept + rows, :width], right, flowing[:rows])
            kept += rows
    _to_weights(flows[:kept], before, x, to_weights)
    _to_inputs(flows[:kept], input_right, to_x, places, hidden, to_inputs)


@exact
def _weights_in(numbers, width, inner, hidden):
    """The weights of inputs and state, and the bias, where they lie side by side."""
    first = width * inner
    last = first + width * hidden
    of_inputs = numbers[:first].reshape((width, inner))
    of_state = numbers[first:last].reshape((width, hidden))
    return of_inputs, of_state, numbers[last:]


@uncounted
def _to_weights(flows, before, x, totals):
    """Add to the gradients of the weights what some rows bring."""
    of_inputs, of_state, of_bias = totals
    rows, inner, (width, hidden) = len(flows), of_inputs.shape[1], of_state.shape
    soft, end = width - hidden, width + hidden
    add_product(flows[:, :width].T, before[:rows], of_state)
    if inner:
        add_product(flows[:, :soft].T, x[:rows], of_inputs[:soft])
        add_product(flows[:, width:end].T, x[:rows], of_inputs[soft:])
        for r in range(rows):
            add(flows[r, :soft], of_bias[:soft])
            add(flows[r, width:end], of_bias[soft:])


@uncounted
def _to_inputs(flows, right, to_x, places, hidden, to_inputs):
    """The gradients of some inputs, at their places."""
    rows, inner, width = len(flows), to_inputs.shape[1], right.shape[1]
    soft, end = width - hidden, width + hidden
    if len(right) == 0:  # they are the gates
        for r in range(rows):
            copy(flows[r, :soft], to_inputs[places[r], :soft])
            copy(flows[r, width:end], to_inputs[places[r], soft:])
        return
    to_x[:rows] = 0
    add_product(flows[:, :soft], right[:, :soft], to_x[:rows, :inner])
    add_product(flows[:, width:end], right[:, soft:], to_x[:rows, :inner])
    for r in range(rows):
        copy(to_x[r, :inner], to_inputs[places[r]])


@njit(inline="always")
def _group_size(histories, parts):
    """Histories of a group: all have about as many, and two threads as many groups."""
    groups = (histories + GROUP - 1) // GROUP
    if parts > 1:
        groups += groups % 2
    return max(1, (histories + groups - 1) // max(1, groups))


@njit(inline="always")
def _length(offsets, order, rank):
    sample = order[rank]
    return offsets[sample + 1] - offsets[sample]
