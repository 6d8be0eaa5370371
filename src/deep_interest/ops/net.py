"""Feed-forward nets in one pass: a few rows go through all layers while they are in the cache, forward and backward."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, parts_of, run, share
from deep_interest.ops.gradients import is_adding
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
    forward_chunk,
    forward_panels,
    forward_room,
    layer_at,
    sums_of,
)  # fmt: skip
from deep_interest.ops.scratch import empty
from deep_interest.ops.tiles import add_product, panel_room, panels, panels_of, put_product

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


class Layers(tuple[Layer, ...]):
    """Layers one after the other, and what their operations want to know of them at every call."""

    @cached_property
    def parameters(self) -> list[Tensor]:
        """Weight, bias and slope of every layer, in the order that the loops know."""
        return [
            tensor
            for layer in self
            for tensor in (layer.weight, layer.bias, layer.slope)
            if tensor is not None
        ]

    @cached_property
    def shape(self) -> "Shape":
        """The net's; the first layer's input is as wide as its weight."""
        widths = self[0].weight.shape[1], *(layer.bias.shape[0] for layer in self)
        return Shape.of(widths, [layer.activation for layer in self])


def net(x: Tensor, layers: Layers) -> Tensor:
    """The layers one after the other. Shape: ``(N, I of the first) -> (N, O of the last)``."""
    if fits(x, *(layer.weight for layer in layers)):
        return _Net.apply(x, layers.shape, *layers.parameters)
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

    @property
    def plain(self) -> bool:
        """One layer without an activation: its product is the result."""
        return len(self.kinds) == 1 and self.kinds[0] == LINEAR

    @staticmethod
    def of(widths: Sequence[int], activations: Sequence[str]) -> "Shape":
        """The shape of a net of these widths, its input's first, with an activation after each layer."""
        kinds = np.array([_KINDS[activation] for activation in activations])
        return Shape(np.array(widths), kinds, sum(widths[1:]), sum(i * o for i, o in pairwise(widths)) // 32)


def flat(parameters: Sequence[Tensor]) -> Tensor:
    """All numbers of a net in one vector: without a copy if they lie so, as an optimiser lays them."""
    numbers = side_by_side(parameters)
    return torch.cat([parameter.reshape(-1) for parameter in parameters]) if numbers is None else numbers


def side_by_side(parameters: Sequence[Tensor]) -> Tensor | None:
    """The vector that the parameters are parts of, one after the other; None if they are not."""
    first = parameters[0]
    at = begin = first.data_ptr()
    for parameter in parameters:
        if parameter.data_ptr() != at or not parameter.is_contiguous():
            return None
        at += parameter.nbytes
    size = (at - begin) // first.element_size()
    if first.storage_offset() + size > first.untyped_storage().nbytes() // first.element_size():
        return None
    return first.detach().as_strided((size,), (1,))


class Sums(NamedTuple):
    """Where the gradient of the numbers of a net or a GRU is added up.

    Attributes:
        parts: ``(parts, numbers)``, of every part of the operation, see `net_chunks.sums_of`.
        own: ``(numbers,)`` the parameters' own gradients, if they are to be added to.
        shapes: of the parameters.
    """

    parts: Tensor
    own: Tensor | None
    shapes: list[torch.Size]

    @staticmethod
    def of(parameters: Sequence[Tensor], work: int) -> "Sums":
        """Room for an operation of so much work, see `compiled.parts_of`."""
        gradients = (
            [parameter.grad for parameter in parameters if parameter.requires_grad] if is_adding() else []
        )
        whole = len(gradients) == len(parameters) and all(gradient is not None for gradient in gradients)
        own = side_by_side(gradients) if whole else None
        parts, shapes = parts_of(work), [parameter.shape for parameter in parameters]
        if own is not None and parts == 1:
            return Sums(own.unsqueeze(0), own, shapes)
        size = sum(shape.numel() for shape in shapes)
        room = parameters[0].new_zeros if parts == 1 else parameters[0].new_empty
        return Sums(room(parts, size), own, shapes)

    def gradients(self) -> list[Tensor | None]:
        """What backward returns for the parameters."""
        if self.own is not None:
            if len(self.parts) > 1:
                run(_add_parts, *arrays(self.parts, self.own), work=self.parts.numel())
            return [None] * len(self.shapes)
        total = self.parts.sum(0) if len(self.parts) > 1 else self.parts[0]
        pieces = total.split([shape.numel() for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]


class _Net(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, shape: Shape, *parameters: Tensor) -> Tensor:
        numbers, rows = flat(parameters), len(x)
        before = empty(x, rows, shape.inner)
        out = before if shape.plain else empty(x, rows, shape.widths[-1])
        of_net = *arrays(numbers), *shape[:2]
        rights = _forward_rights(*of_net)
        run(_forward, *arrays(x), *of_net, rights, *arrays(before, out), work=rows * shape.work)
        ctx.save_for_backward(x, numbers, before)
        ctx.shape, ctx.parameters = shape, parameters
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, numbers, before = ctx.saved_tensors
        work, needed = len(x) * ctx.shape.work, ctx.needs_input_grad[0]
        to_x = empty(x, *(x.shape if needed else (0, 0)))
        sums = Sums.of(ctx.parameters, work)
        of_net = *arrays(numbers), *ctx.shape[:2]
        rights = _backward_rights(*of_net)
        rows = arrays(before, to_x, sums.parts)
        run(_backward, *arrays(grad, x), *of_net, rights, *rows, work=work)
        return to_x if needed else None, None, *sums.gradients()


@compiled
def _add_parts(sums, total, part, parts):
    """The parts' sums, in their order, on top of what is there."""
    first, last = share(len(total), part, parts)
    for p in range(len(sums)):
        add(sums[p, first:last], total[first:last])


@compiled
def _forward_rights(numbers, widths, kinds):
    """What the parts of a forward pass multiply with, as panels: in the first layer, and in the others."""
    first = layer_at(numbers, widths, kinds, 0)[0]
    return panels_of(first.T), forward_panels(numbers, widths, kinds)


@compiled
def _forward(x, numbers, widths, kinds, rights, before, out, part, parts):
    (first_right, right), room = rights, forward_room(widths)
    bias = layer_at(numbers, widths, kinds, 0)[1]
    first, last = share(len(x), part, parts)
    for begin in range(first, last, CHUNK):
        end = min(begin + CHUNK, last)
        put_product(bias, x[begin:end], first_right, before[begin:end, : widths[1]])
        if len(kinds) > 1 or kinds[0] != LINEAR:
            forward_chunk(numbers, widths, kinds, right, before[begin:end], out[begin:end], room)


@compiled
def _backward_rights(numbers, widths, kinds):
    """As `_forward_rights`, of a backward pass."""
    return panels_of(layer_at(numbers, widths, kinds, 0)[0]), backward_panels(numbers, widths, kinds)


@compiled
def _backward(grad, x, numbers, widths, kinds, rights, before, to_x, to_numbers, part, parts):
    (first_right, right), room = rights, backward_room(widths)
    totals = sums_of(to_numbers, part)
    to_weight, to_bias, _ = layer_at(totals, widths, kinds, 0)
    columns = panel_room(CHUNK, widths[0])
    first, last = share(len(x), part, parts)
    for begin in range(first, last, CHUNK):
        end = min(begin + CHUNK, last)
        flows = backward_chunk(
            grad[begin:end], numbers, widths, kinds, right, before[begin:end], totals, room
        )
        flow = flows[: end - begin, : widths[1]]
        for r in range(len(flow)):  # a row of a slice of columns would not be vectorised
            add(flows[r, : widths[1]], to_bias)
        panels(x[begin:end], widths[0], columns)
        add_product(flow.T, columns, to_weight)
        if len(to_x):
            to_x[begin:end] = 0
            add_product(flow, first_right, to_x[begin:end])
