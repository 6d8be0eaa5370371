"""Multi-layer perceptrons in one pass: a chunk of rows goes through all layers while it is in the cache."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.kernels.mlp import mlp_backward, mlp_forward, pack_backward, pack_forward
from deep_interest.ops.kernels.mlp_chunk import LINEAR, PRELU, RELU, SIGMOID, MLPParams
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.weights import GradientSums, flatten

_ACTIVATION_CODES = {"linear": LINEAR, "prelu": PRELU, "relu": RELU, "sigmoid": SIGMOID}


LayerActivation = Literal["linear", "prelu", "relu", "sigmoid"]


class Layer(NamedTuple):
    """A linear layer and its activation.

    Attributes:
        weight: ``(O, I)``.
        bias: ``(O,)``.
        activation: name of the activation.
        slope: ``(O,)`` of a PReLU, else None.
    """

    weight: Tensor
    bias: Tensor
    activation: LayerActivation = "linear"
    slope: Tensor | None = None


class Layers(tuple[Layer, ...]):
    """The layers of an MLP, with what operations derive from them cached."""

    @cached_property
    def parameters(self) -> list[Tensor]:
        """Weight, bias and slope of every layer, in the order of `MLPParams`."""
        return [
            tensor
            for layer in self
            for tensor in (layer.weight, layer.bias, layer.slope)
            if tensor is not None
        ]

    @cached_property
    def shape(self) -> "MLPShape":
        """Widths and activations; the input of the first layer is as wide as its weight."""
        widths = self[0].weight.shape[1], *(layer.bias.shape[0] for layer in self)
        return MLPShape.make(widths, [layer.activation for layer in self])


class MLPShape(NamedTuple):
    """What kernels need to know of an MLP besides its parameters.

    Attributes:
        widths: ``(L + 1,)`` width of the input and of every layer.
        activations: ``(L,)`` LINEAR, PRELU, RELU or SIGMOID.
        hidden: Σ widths[1:], pre-activations of a row.
        work: work of a row, see `runtime.parallel.partition_count`.
    """

    widths: np.ndarray
    activations: np.ndarray
    hidden: int
    work: int

    @property
    def is_linear(self) -> bool:
        """Whether there is one layer without an activation: its product is the result."""
        return len(self.activations) == 1 and self.activations[0] == LINEAR

    @classmethod
    def make(cls, widths: Sequence[int], activations: Sequence[str]) -> "MLPShape":
        """Return the shape of an MLP.

        Args:
            widths: width of the input and of every layer.
            activations: name of the activation of every layer.
        """
        codes = np.array([_ACTIVATION_CODES[activation] for activation in activations])
        return cls(np.array(widths), codes, sum(widths[1:]), sum(i * o for i, o in pairwise(widths)) // 32)

    def params(self, values: Tensor) -> MLPParams:
        """Return the parameters ``values (P,)`` as kernels take them."""
        return MLPParams(*as_arrays(values), self.widths, self.activations)


def mlp(x: Tensor, layers: Layers, *, accumulator: GradientAccumulator | None = None) -> Tensor:
    """Apply layers one after the other.

    Args:
        x: ``(N, I)``, I the input width of the first layer.
        layers: the layers.
        accumulator: where to add the gradients of the parameters; None to return them to autograd.

    Returns:
        ``(N, O)``, O the width of the last layer.
    """
    if can_use_compiled(x, *(layer.weight for layer in layers)):
        return _MLP.apply(x, layers.shape, accumulator, *layers.parameters)
    for layer in layers:
        x = activate(F.linear(x, layer.weight, layer.bias), layer)
    return x


def activate(x: Tensor, layer: Layer) -> Tensor:
    """Apply a layer's activation with torch operations."""
    if layer.activation == "prelu":
        assert layer.slope is not None
        return F.prelu(x, layer.slope)
    return {"linear": lambda y: y, "relu": torch.relu, "sigmoid": torch.sigmoid}[layer.activation](x)


class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, x: Tensor, shape: MLPShape, accumulator: GradientAccumulator | None, *parameters: Tensor
    ) -> Tensor:
        values, rows = flatten(parameters), len(x)
        pre_activations = empty(x, rows, shape.hidden)
        out = pre_activations if shape.is_linear else empty(x, rows, shape.widths[-1])
        params = shape.params(values)
        arrays, outputs = as_arrays(x), as_arrays(pre_activations, out)
        run_kernel(mlp_forward, *arrays, params, pack_forward(params), *outputs, work=rows * shape.work)
        ctx.save_for_backward(x, values, pre_activations)
        ctx.shape, ctx.accumulator, ctx.parameters = shape, accumulator, parameters
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        x, values, pre_activations = ctx.saved_tensors
        work, needs_grad_x = len(x) * ctx.shape.work, ctx.needs_input_grad[0]
        grad_x = empty(x, *(x.shape if needs_grad_x else (0, 0)))
        sums = GradientSums.make(ctx.parameters, work, ctx.accumulator)
        params = ctx.shape.params(values)
        inputs, outputs = as_arrays(grad_output, x), as_arrays(pre_activations, grad_x, sums.partitions)
        run_kernel(mlp_backward, *inputs, params, pack_backward(params), *outputs, work=work)
        return grad_x if needs_grad_x else None, None, None, *sums.gradients()
