"""Feed-forward nets in one pass: a few rows go through all layers while they are in the cache, forward and backward."""

from deep_interest.ops.kernels.gemm import matmul_add, matmul_bias, pack, pack_into, packed_buffer
from deep_interest.ops.kernels.mlp_chunk import (
    CHUNK_ROWS,
    LINEAR,
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
def pack_forward(numbers, widths, kinds):
    """What the parts of a forward pass multiply with, as panels: in the first layer, and in the others."""
    first = layer_at(numbers, widths, kinds, 0)[0]
    return pack(first.T), pack_forward_layers(numbers, widths, kinds)


@kernel
def mlp_forward(x, numbers, widths, kinds, rights, before, out, part, parts):
    (first_right, right), room = rights, forward_workspace(widths)
    bias = layer_at(numbers, widths, kinds, 0)[1]
    first, last = partition_bounds(len(x), part, parts)
    for begin in range(first, last, CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, last)
        matmul_bias(bias, x[begin:end], first_right, before[begin:end, : widths[1]])
        if len(kinds) > 1 or kinds[0] != LINEAR:
            forward_chunk(numbers, widths, kinds, right, before[begin:end], out[begin:end], room)


@kernel
def pack_backward(numbers, widths, kinds):
    """As `_forward_rights`, of a backward pass."""
    return pack(layer_at(numbers, widths, kinds, 0)[0]), pack_backward_layers(numbers, widths, kinds)


@kernel
def mlp_backward(grad, x, numbers, widths, kinds, rights, before, to_x, to_numbers, part, parts):
    (first_right, right), room = rights, backward_workspace(widths)
    totals = partition_sums(to_numbers, part)
    to_weight, to_bias, _ = layer_at(totals, widths, kinds, 0)
    columns = packed_buffer(CHUNK_ROWS, widths[0])
    first, last = partition_bounds(len(x), part, parts)
    for begin in range(first, last, CHUNK_ROWS):
        end = min(begin + CHUNK_ROWS, last)
        flows = backward_chunk(
            grad[begin:end], numbers, widths, kinds, right, before[begin:end], totals, room
        )
        flow = flows[: end - begin, : widths[1]]
        for r in range(len(flow)):  # a row of a slice of columns would not be vectorised
            add(flows[r, : widths[1]], to_bias)
        pack_into(x[begin:end], widths[0], columns)
        matmul_add(flow.T, columns, to_weight)
        if len(to_x):
            to_x[begin:end] = 0
            matmul_add(flow, first_right, to_x[begin:end])
