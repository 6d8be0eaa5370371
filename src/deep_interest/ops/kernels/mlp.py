"""Kernels of the MLP: chunks of rows go through all layers while they are in the cache, forward and backward."""

from deep_interest.ops.kernels.gemm import matmul_add, matmul_bias, pack, pack_into, packed_buffer
from deep_interest.ops.kernels.mlp_chunk import (
    CHUNK_ROWS,
    LINEAR,
    MLPParams,
    backward_chunk,
    backward_workspace,
    forward_chunk,
    forward_workspace,
    layer_at,
    pack_backward_layers,
    pack_forward_layers,
)
from deep_interest.ops.kernels.vector import add, partition_sums
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def pack_forward(params):
    """Pack the weights for `mlp_forward`, once for all partitions: the first layer's, and those of the others."""
    return pack(layer_at(params, 0)[0].T), pack_forward_layers(params)


@kernel
def mlp_forward(x, params, packed, pre_activations, out, partition, partitions):
    """Apply the layers.

    Args:
        x: ``(N, widths[0])``.
        params: `MLPParams`.
        packed: result of `pack_forward`.
        pre_activations: OUT ``(N, Σ widths[1:])``.
        out: OUT ``(N, widths[-1])``; ``pre_activations`` itself for a single linear layer.
    """
    (first_packed, packed_layers), workspace = packed, forward_workspace(params.widths)
    bias, width = layer_at(params, 0)[1], params.widths[1]
    first, last = partition_bounds(len(x), partition, partitions)
    for begin in range(first, last, CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, last)
        matmul_bias(bias, x[begin:end], first_packed, pre_activations[begin:end, :width])
        if len(params.activations) > 1 or params.activations[0] != LINEAR:
            forward_chunk(params, packed_layers, pre_activations[begin:end], out[begin:end], workspace)


@kernel
def pack_backward(params):
    """As `pack_forward`, for `mlp_backward`."""
    return pack(layer_at(params, 0)[0]), pack_backward_layers(params)


@kernel
def mlp_backward(grad_output, x, params, packed, pre_activations, grad_x, grad_params, partition, partitions):
    """Compute the gradients of `mlp_forward`.

    Args:
        grad_output: ``(N, widths[-1])``.
        x, params, pre_activations: as in `mlp_forward`.
        packed: result of `pack_backward`.
        grad_x: OUT ``(N, widths[0])``; empty if it is not needed.
        grad_params: INOUT ``(partitions, P)``, see `partition_sums`.
    """
    (first_packed, packed_layers), workspace = packed, backward_workspace(params.widths)
    inputs, outputs = params.widths[0], params.widths[1]
    grads = MLPParams(partition_sums(grad_params, partition), params.widths, params.activations)
    grad_weight, grad_bias, _ = layer_at(grads, 0)
    packed_x = packed_buffer(CHUNK_ROWS, inputs)
    first, last = partition_bounds(len(x), partition, partitions)
    for begin in range(first, last, CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, last)
        grad_hidden = backward_chunk(
            grad_output[begin:end], params, packed_layers, pre_activations[begin:end], grads, workspace
        )
        grad = grad_hidden[: end - begin, :outputs]
        for r in range(len(grad)):  # a row of a slice of columns would not be vectorised
            add(grad_hidden[r, :outputs], grad_bias)
        pack_into(x[begin:end], inputs, packed_x)
        matmul_add(grad.T, packed_x, grad_weight)
        if len(grad_x):
            grad_x[begin:end] = 0
            matmul_add(grad, first_packed, grad_x[begin:end])
