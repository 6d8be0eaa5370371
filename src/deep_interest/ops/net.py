"""Feed-forward nets in one pass: a few rows go through all layers while they are in the cache, forward and backward."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numba import float32
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, parts_of, run, share
from deep_interest.ops.net_chunks import (
    CHUNK,
    LINEAR,
    PRELU,
    RELU,
    SIGMOID,
    add,
    backward_chunk,
    backward_panels,
    backward_room,
    copy,
    forward_chunk,
    forward_panels,
    forward_room,
    layer_at,
)  # fmt: skip
from deep_interest.ops.tiles import COLUMNS, add_product, panel_count, panels, panels_of

_KINDS = {"linear": LINEAR, "prelu": PRELU, "relu": RELU, "sigmoid": SIGMOID}


class Layer(NamedTuple):
    """A linear map and what follows it.

    Attributes:
        weight: ``(O, I)``.
        bias: ``(O,)``.
        activation: what follows.
        slope: ``(O,)`` of a PReLU.
    """

    weight: Tensor
    bias: Tensor
    activation: Literal["linear", "prelu", "relu", "sigmoid"] = "linear"
    slope: Tensor | None = None


def net(x: Tensor, layers: Sequence[Layer]) -> Tensor:
    """The layers one after the other. Shape: ``(N, I of the first) -> (N, O of the last)``."""
    if fits(x, *(layer.weight for layer in layers)):
        return _Net.apply(x, Shape.of(x.shape[1], layers), *parameters_of(layers))
    for layer in layers:
        x = activate(F.linear(x, layer.weight, layer.bias), layer)
    return x


def activate(x: Tensor, layer: Layer) -> Tensor:
    """The layer's activation, in torch's operations."""
    if layer.activation == "prelu":
        assert layer.slope is not None
        return F.prelu(x, layer.slope)
    return {"linear": lambda y: y, "relu": torch.relu, "sigmoid": torch.sigmoid}[layer.activation](x)


class Shape(NamedTuple):
    """What the loops need to know of a net besides its numbers.

    Attributes:
        widths: ``(L + 1,)`` of the input and of every layer.
        kinds: ``(L,)`` LINEAR, PRELU, RELU or SIGMOID.
        inner: Σ widths[1:].
        work: of one row, see `compiled.parts_of`.
    """

    widths: np.ndarray
    kinds: np.ndarray
    inner: int
    work: int

    @staticmethod
    def of(inputs: int, layers: Sequence[Layer]) -> "Shape":
        """The shape of layers whose input is so wide."""
        return _shape(
            (inputs, *(len(layer.bias) for layer in layers)), tuple(layer.activation for layer in layers)
        )


@cache
def _shape(widths: tuple[int, ...], activations: tuple[str, ...]) -> Shape:
    kinds = np.array([_KINDS[activation] for activation in activations])
    return Shape(np.array(widths), kinds, sum(widths[1:]), sum(i * o for i, o in pairwise(widths)) // 32)


def parameters_of(layers: Sequence[Layer]) -> list[Tensor]:
    """Weight, bias and slope of every layer, in the order that the loops know."""
    return [
        tensor for layer in layers for tensor in (layer.weight, layer.bias, layer.slope) if tensor is not None
    ]


def flat(parameters: Sequence[Tensor]) -> Tensor:
    """All numbers of a net in one vector: without a copy if they lie so, as an optimiser lays them."""
    first, size = parameters[0], sum(parameter.numel() for parameter in parameters)
    at = first.data_ptr()
    for parameter in parameters:
        if parameter.data_ptr() != at or not parameter.is_contiguous():
            break
        at += parameter.numel() * parameter.element_size()
    else:
        if first.storage_offset() + size <= first.untyped_storage().nbytes() // first.element_size():
            return first.detach().as_strided((size,), (1,))
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


def unflat(sums: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """The gradient of each parameter of the parts' sums. Shape: ``(parts, numbers) -> [shape]``."""
    total = sums.sum(0) if len(sums) > 1 else sums[0]
    pieces = total.split([shape.numel() for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


class _Net(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, shape: Shape, *parameters: Tensor) -> Tensor:
        numbers, rows = flat(parameters), len(x)
        before, out = x.new_empty(rows, shape.inner), x.new_empty(rows, shape.widths[-1])
        run(_forward, *arrays(x, numbers), *shape[:2], *arrays(before, out), work=rows * shape.work)
        ctx.save_for_backward(x, numbers, before)
        ctx.shape, ctx.shapes = shape, [parameter.shape for parameter in parameters]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, numbers, before = ctx.saved_tensors
        work, needed = len(x) * ctx.shape.work, ctx.needs_input_grad[0]
        to_x = x.new_empty(x.shape if needed else (0, 0))
        to_numbers = x.new_zeros(parts_of(work), len(numbers))
        run(
            _backward, *arrays(grad, x, numbers), *ctx.shape[:2], *arrays(before, to_x, to_numbers), work=work
        )
        return to_x if needed else None, None, *unflat(to_numbers, ctx.shapes)


@compiled
def _forward(x, numbers, widths, kinds, before, out, part, parts):
    right, room = forward_panels(numbers, widths, kinds), forward_room(widths)
    weight, bias, _ = layer_at(numbers, widths, kinds, 0)
    first_right = panels_of(weight.T)
    first, last = share(len(x), part, parts)
    for begin in range(first, last, CHUNK):
        end = min(begin + CHUNK, last)
        for r in range(begin, end):
            copy(bias, before[r])
        add_product(x[begin:end], first_right, before[begin:end, : widths[1]])
        forward_chunk(numbers, widths, kinds, right, before[begin:end], out[begin:end], room)


@compiled
def _backward(grad, x, numbers, widths, kinds, before, to_x, to_numbers, part, parts):
    right, room = backward_panels(numbers, widths, kinds), backward_room(widths)
    totals = to_numbers[part]
    to_weight, to_bias, _ = layer_at(totals, widths, kinds, 0)
    first_right = panels_of(layer_at(numbers, widths, kinds, 0)[0])
    columns = np.empty((panel_count(widths[0]), CHUNK, COLUMNS), float32)
    first, last = share(len(x), part, parts)
    for begin in range(first, last, CHUNK):
        end = min(begin + CHUNK, last)
        flows = backward_chunk(
            grad[begin:end], numbers, widths, kinds, right, before[begin:end], totals, room
        )
        flow = flows[: end - begin, : widths[1]]
        for r in range(len(flow)):
            add(flow[r], to_bias)
        panels(x[begin:end], widths[0], columns)
        add_product(flow.T, columns, to_weight)
        if len(to_x):
            to_x[begin:end] = 0
            add_product(flow, first_right, to_x[begin:end])
