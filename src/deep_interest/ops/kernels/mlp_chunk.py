"""The layers of an MLP for a chunk of rows that stays in the cache, forward and backward.

The product of the first layer is left to the caller: its rows are plain rows in `kernels.mlp`, pairs in
`kernels.attention`.
"""

from typing import NamedTuple

import numpy as np
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

CHUNK_ROWS = 128
LINEAR, PRELU, RELU, SIGMOID = range(4)


class MLPParams(NamedTuple):
    """The parameters of an MLP, or their gradients.

    Attributes:
        values: ``(P,)`` weights, biases and slopes of all layers, layer after layer.
        widths: ``(L + 1,)`` width of the input and of every layer.
        activations: ``(L,)`` LINEAR, PRELU, RELU or SIGMOID.
    """

    values: np.ndarray
    widths: np.ndarray
    activations: np.ndarray


@njit_strict
def layer_at(params, layer):
    """Return views of a layer's weight, bias and slope; the slope is empty if the activation is not a PReLU."""
    values, widths, activations = params
    position = 0
    for i in range(layer):
        position += (widths[i] + 1) * widths[i + 1] + (widths[i + 1] if activations[i] == PRELU else 0)
    inputs, outputs = widths[layer], widths[layer + 1]
    weight = values[position : position + inputs * outputs].reshape((outputs, inputs))
    position += inputs * outputs
    end = position + outputs
    return weight, values[position:end], values[end : end + (outputs if activations[layer] == PRELU else 0)]


@njit_strict
def _packed_at(buffer, widths, index):
    """Return one of several packed matrices ``(widths[i], widths[i + 1])`` that share a buffer."""
    position = 0
    for i in range(index):
        position += panel_count(widths[i + 1]) * widths[i] * NR
    count, inner = panel_count(widths[index + 1]), widths[index]
    return buffer[position : position + count * inner * NR].reshape((count, inner, NR))


@njit_strict
def _packed_buffer(widths):
    """Return a buffer for the packed matrices of `_packed_at`."""
    size = 0
    for i in range(len(widths) - 1):
        size += panel_count(widths[i + 1]) * widths[i] * NR
    return aligned_buffer(size)


@njit_strict
def pack_forward_layers(params):
    """Pack the transposed weights of all layers but the first, for `forward_chunk`."""
    widths = params.widths[1:]
    buffer = _packed_buffer(widths)
    for layer in range(1, len(params.activations)):
        weight = layer_at(params, layer)[0]
        pack_into(weight.T, len(weight), _packed_at(buffer, widths, layer - 1))
    return buffer


@njit_strict
def pack_backward_layers(params):
    """Pack the weights of all layers but the first, the last layer's first, for `backward_chunk`."""
    reversed_widths = params.widths[:0:-1]
    buffer = _packed_buffer(reversed_widths)
    layers = len(params.activations)
    for layer in range(1, layers):
        out = _packed_at(buffer, reversed_widths, layers - 1 - layer)
        pack_into(layer_at(params, layer)[0], params.widths[layer], out)
    return buffer


@njit_strict
def forward_workspace(widths):
    """Return the workspace of `forward_chunk`: two row buffers."""
    widest = widths[1:].max()
    return row_buffer(CHUNK_ROWS, widest), row_buffer(CHUNK_ROWS, widest)


@njit_strict
def forward_chunk(params, packed, pre_activations, out, workspace):
    """Apply all layers to a chunk of n rows, from the product of the first layer on.

    Args:
        params: `MLPParams`.
        packed: result of `pack_forward_layers`.
        pre_activations: INOUT ``(n, Σ widths[1:])``; the columns of the first layer are input, the others output.
        out: OUT ``(n, widths[-1])``.
        workspace: `forward_workspace`.
    """
    rows, column, target, source = len(pre_activations), 0, workspace[0], workspace[1]
    widths = params.widths
    for layer in range(len(params.activations)):
        width = widths[layer + 1]
        bias, slope = layer_at(params, layer)[1:]
        if layer:
            right = _packed_at(packed, widths[1:], layer - 1)
            matmul_bias(
                bias, source[:rows, : widths[layer]], right, pre_activations[:, column : column + width]
            )  # fmt: skip
        _activate(params.activations[layer], rows, pre_activations, column, width, slope, target)
        column, target, source = column + width, source, target
    for r in range(rows):
        copy(source[r, : len(out[r])], out[r])


@njit_strict
def backward_workspace(widths):
    """Return the workspace of `backward_chunk`: three row buffers."""
    widest = widths[1:].max()
    return row_buffer(CHUNK_ROWS, widest), row_buffer(CHUNK_ROWS, widest), row_buffer(CHUNK_ROWS, widest)


@njit_strict
def backward_chunk(grad_output, params, packed, pre_activations, grads, workspace):
    """Propagate the gradients of a chunk of n rows through all layers, back to the product of the first layer.

    Args:
        grad_output: ``(n, widths[-1])``.
        params, pre_activations: as in `forward_chunk`.
        packed: result of `pack_backward_layers`.
        grads: INOUT `MLPParams` to which the gradients of all slopes, and of all weights and biases but the
            first, are added.
        workspace: `backward_workspace`.

    Returns:
        The gradient of the first layer's pre-activations, in the first n rows and ``widths[1]`` columns of a row
        buffer.
    """
    grad_pre, grad_post, inputs = workspace
    widths, activations = params.widths, params.activations
    reversed_widths, last, rows = widths[:0:-1], len(activations) - 1, len(pre_activations)
    end = widths[1:].sum()
    for r in range(rows):
        copy(grad_output[r], grad_post[r])
    for layer in range(last, -1, -1):
        width, slope = widths[layer + 1], layer_at(params, layer)[2]
        column = end - width
        grad_weight, grad_bias, grad_slope = layer_at(grads, layer)
        _activate_backward(
            activations[layer], rows, pre_activations, column, width, slope, grad_post, grad_pre, grad_slope
        )
        grad = grad_pre[:rows, :width]
        if layer == 0:
            break
        for r in range(rows):
            add(grad_pre[r, :width], grad_bias)
        width, slope = widths[layer], layer_at(params, layer - 1)[2]
        _activate(activations[layer - 1], rows, pre_activations, column - width, width, slope, inputs)
        matmul_add(grad.T, inputs[:rows], grad_weight)
        for r in range(rows):
            grad_post[r, :width] = 0
        matmul_add(grad, _packed_at(packed, reversed_widths, last - layer), grad_post[:rows, :width])
        end = column
    return grad_pre


@njit_no_refcount
def _activate(activation, rows, pre_activations, column, width, slope, out):
    """Apply an activation to ``width`` columns of the first rows, from ``column`` on; OUT ``out``, from column 0 on."""
    for r in range(rows):
        x, y = pre_activations[r, column : column + width], out[r]
        if activation == PRELU:
            prelu_row(x, slope, y)
        elif activation == SIGMOID:
            for j in range(width):
                y[j] = sigmoid(x[j])
        elif activation == RELU:
            for j in range(width):
                y[j] = max(x[j], float32(0))
        else:
            copy(x, y)


@njit_no_refcount
def _activate_backward(
    activation, rows, pre_activations, column, width, slope, grad_output, grad_pre, grad_slope
):
    """Gradients of `_activate`; OUT ``grad_pre``, from column 0 on as ``grad_output``, INOUT ``grad_slope``."""
    for r in range(rows):
        x, grad, grad_x = pre_activations[r, column : column + width], grad_output[r], grad_pre[r]
        if activation == PRELU:
            prelu_row_backward(x, slope, grad, grad_x, grad_slope)
        elif activation == SIGMOID:
            for j in range(width):
                y = sigmoid(x[j])
                grad_x[j] = grad[j] * y * (float32(1) - y)
        elif activation == RELU:
            for j in range(width):
                grad_x[j] = grad[j] if x[j] > 0 else float32(0)
        else:
            for j in range(width):
                grad_x[j] = grad[j]
