"""A net's way through a chunk of rows that stays in the cache, forward and backward: the loops of `net` and `pair_net`.

A net is three arrays: all its numbers in one vector (`net.flat`), the widths of its input and layers, and the kinds of its activations.
The first layer's product is left to them, since the one is of plain rows and the other of pairs.
"""

from numpy import float32

from deep_interest.ops.kernels.activations import prelu_row, prelu_row_backward, sigmoid
from deep_interest.ops.kernels.gemm import (
    aligned_buffer,
    matmul_add,
    matmul_bias,
    pack_into,
    panel_count,
    row_buffer,
)
from deep_interest.ops.kernels.gemm_llvm import NR
from deep_interest.ops.kernels.vector import add, copy
from deep_interest.ops.runtime.jit import njit_no_refcount, njit_strict

CHUNK_ROWS = 128  # rows


LINEAR, PRELU, RELU, SIGMOID = range(4)


@njit_strict
def layer_at(numbers, widths, kinds, number):
    """Weight, bias and slope of a layer, or their gradients, where they lie; the slope is empty where there is none."""
    at = 0
    for i in range(number):
        at += (widths[i] + 1) * widths[i + 1] + (widths[i + 1] if kinds[i] == PRELU else 0)
    inputs, outputs = widths[number], widths[number + 1]
    weight = numbers[at : at + inputs * outputs].reshape((outputs, inputs))
    at += inputs * outputs
    end = at + outputs
    return weight, numbers[at:end], numbers[end : end + (outputs if kinds[number] == PRELU else 0)]


@njit_strict
def _packed_layer(room, widths, number):
    """The panels of one of several matrices ``(widths[i], widths[i + 1])`` that share a room."""
    at = 0
    for i in range(number):
        at += panel_count(widths[i + 1]) * widths[i] * NR
    count, inner = panel_count(widths[number + 1]), widths[number]
    return room[at : at + count * inner * NR].reshape((count, inner, NR))


@njit_strict
def _packed_buffer(widths):
    size = 0
    for i in range(len(widths) - 1):
        size += panel_count(widths[i + 1]) * widths[i] * NR
    return aligned_buffer(size)


@njit_strict
def pack_forward_layers(numbers, widths, kinds):
    """The transposed weights of all layers but the first, for `forward_chunk`."""
    inner = widths[1:]
    room = _packed_buffer(inner)
    for number in range(1, len(kinds)):
        weight = layer_at(numbers, widths, kinds, number)[0]
        pack_into(weight.T, len(weight), _packed_layer(room, inner, number - 1))
    return room


@njit_strict
def pack_backward_layers(numbers, widths, kinds):
    """The weights of all layers but the first, the last layer's first, for `backward_chunk`."""
    against = widths[:0:-1]
    room = _packed_buffer(against)
    for number in range(1, len(kinds)):
        place = _packed_layer(room, against, len(kinds) - 1 - number)
        pack_into(layer_at(numbers, widths, kinds, number)[0], widths[number], place)
    return room


@njit_strict
def forward_workspace(widths):
    """What `forward_chunk` needs: two rooms for rows."""
    most = widths[1:].max()
    return row_buffer(CHUNK_ROWS, most), row_buffer(CHUNK_ROWS, most)


@njit_strict
def forward_chunk(numbers, widths, kinds, right, before, out, room):
    """Take some rows through all layers, from the first one's product on.

    Args:
        numbers, widths, kinds: the net.
        right: its `forward_panels`.
        before: ``(n, Σ widths[1:])`` for every layer's values before the activation; the first layer's are there.
        out: ``(n, widths[-1])`` for the result.
        room: `forward_room`.
    """
    size, column, place, other = len(before), 0, room[0], room[1]
    for number in range(len(kinds)):
        width = widths[number + 1]
        bias, slope = layer_at(numbers, widths, kinds, number)[1:]
        if number:
            now, right_panels = other[:size, : widths[number]], _packed_layer(right, widths[1:], number - 1)
            matmul_bias(bias, now, right_panels, before[:, column : column + width])
        _activate(kinds[number], size, before, column, width, slope, place)
        column, place, other = column + width, other, place
    for r in range(size):
        copy(other[r, : len(out[r])], out[r])


@njit_strict
def backward_workspace(widths):
    """What `backward_chunk` needs: three rooms for rows."""
    most = widths[1:].max()
    return row_buffer(CHUNK_ROWS, most), row_buffer(CHUNK_ROWS, most), row_buffer(CHUNK_ROWS, most)


@njit_strict
def backward_chunk(grad, numbers, widths, kinds, right, before, totals, room):
    """Take the gradient of some rows back through all layers, down to the first one's product.

    The gradients of slopes, and of all weights and biases but the first, are added to ``totals``.

    Args:
        grad: ``(n, widths[-1])``.
        numbers, widths, kinds, before: as of `forward_chunk`.
        right: the net's `backward_panels`.
        totals: as ``numbers``.
        room: `backward_room`.

    Returns:
        The gradient of the first layer's values before the activation in the first n rows and ``widths[1]`` columns.
    """
    flows, given, inputs = room
    against, last, size = widths[:0:-1], len(kinds) - 1, len(before)
    end = widths[1:].sum()
    for r in range(size):
        copy(grad[r], given[r])
    for number in range(last, -1, -1):
        width, slope = widths[number + 1], layer_at(numbers, widths, kinds, number)[2]
        column = end - width
        to_weight, to_bias, to_slope = layer_at(totals, widths, kinds, number)
        _activate_backward(kinds[number], size, before, column, width, slope, given, flows, to_slope)
        flow = flows[:size, :width]
        if number == 0:
            break
        for r in range(size):
            add(flows[r, :width], to_bias)
        width, slope = widths[number], layer_at(numbers, widths, kinds, number - 1)[2]
        _activate(kinds[number - 1], size, before, column - width, width, slope, inputs)
        matmul_add(flow.T, inputs[:size], to_weight)
        for r in range(size):
            given[r, :width] = 0
        matmul_add(flow, _packed_layer(right, against, last - number), given[:size, :width])
        end = column
    return flows


@njit_no_refcount
def _activate(kind, rows, before, column, width, slope, out):
    """The activation of ``width`` columns of the first rows, from ``column`` on; the result's columns start at 0."""
    for r in range(rows):
        x, y = before[r, column : column + width], out[r]
        if kind == PRELU:
            prelu_row(x, slope, y)
        elif kind == SIGMOID:
            for j in range(width):
                y[j] = sigmoid(x[j])
        elif kind == RELU:
            for j in range(width):
                y[j] = max(x[j], float32(0))
        else:
            copy(x, y)


@njit_no_refcount
def _activate_backward(kind, rows, before, column, width, slope, grad, to_before, to_slope):
    """Its gradient; the columns of ``grad`` and ``to_before`` start at 0."""
    for r in range(rows):
        x, flow, to_x = before[r, column : column + width], grad[r], to_before[r]
        if kind == PRELU:
            prelu_row_backward(x, slope, flow, to_x, to_slope)
        elif kind == SIGMOID:
            for j in range(width):
                share = sigmoid(x[j])
                to_x[j] = flow[j] * share * (float32(1) - share)
        elif kind == RELU:
            for j in range(width):
                to_x[j] = flow[j] if x[j] > 0 else float32(0)
        else:
            for j in range(width):
                to_x[j] = flow[j]
