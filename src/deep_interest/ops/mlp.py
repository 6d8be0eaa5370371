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

from deep_interest.ops.kernels.mlp import mlp_backward, mlp_forward, pack_backward, pack_forward
from deep_interest.ops.kernels.mlp_chunk import LINEAR, PRELU, RELU, SIGMOID
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.weights import GradientSums, flatten

_ACTIVATION_CODES = {"linear": LINEAR, "prelu": PRELU, "relu": RELU, "sigmoid": SIGMOID}


LayerActivation = Literal["linear", "prelu", "relu", "sigmoid"]


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
    activation: LayerActivation = "linear"
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
    def shape(self) -> "MLPShape":
        """The net's; the first layer's input is as wide as its weight."""
        widths = self[0].weight.shape[1], *(layer.bias.shape[0] for layer in self)
        return MLPShape.of(widths, [layer.activation for layer in self])


def mlp(x: Tensor, layers: Layers) -> Tensor:
    """The layers one after the other. Shape: ``(N, I of the first) -> (N, O of the last)``."""
    if can_use_compiled(x, *(layer.weight for layer in layers)):
        return _MLP.apply(x, layers.shape, *layers.parameters)
    for layer in layers:
        x = activate(F.linear(x, layer.weight, layer.bias), layer)
    return x


def activate(x: Tensor, layer: Layer) -> Tensor:
    """The layer's activation, in torch's operations."""
    if layer.activation == "prelu":
        assert layer.slope is not None
        return F.prelu(x, layer.slope)
    return {"linear": lambda y: y, "relu": torch.relu, "sigmoid": torch.sigmoid}[layer.activation](x)


class MLPShape(NamedTuple):
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
    def of(widths: Sequence[int], activations: Sequence[str]) -> "MLPShape":
        """The shape of a net of these widths, its input's first, with an activation after each layer."""
        kinds = np.array([_ACTIVATION_CODES[activation] for activation in activations])
        return MLPShape(
            np.array(widths), kinds, sum(widths[1:]), sum(i * o for i, o in pairwise(widths)) // 32
        )


class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, shape: MLPShape, *parameters: Tensor) -> Tensor:
        numbers, rows = flatten(parameters), len(x)
        before = empty(x, rows, shape.inner)
        out = before if shape.plain else empty(x, rows, shape.widths[-1])
        of_net = *as_arrays(numbers), *shape[:2]
        rights = pack_forward(*of_net)
        run_kernel(
            mlp_forward, *as_arrays(x), *of_net, rights, *as_arrays(before, out), work=rows * shape.work
        )
        ctx.save_for_backward(x, numbers, before)
        ctx.shape, ctx.parameters = shape, parameters
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, numbers, before = ctx.saved_tensors
        work, needed = len(x) * ctx.shape.work, ctx.needs_input_grad[0]
        to_x = empty(x, *(x.shape if needed else (0, 0)))
        sums = GradientSums.of(ctx.parameters, work)
        of_net = *as_arrays(numbers), *ctx.shape[:2]
        rights = pack_backward(*of_net)
        rows = as_arrays(before, to_x, sums.parts)
        run_kernel(mlp_backward, *as_arrays(grad, x), *of_net, rights, *rows, work=work)
        return to_x if needed else None, None, *sums.gradients()
