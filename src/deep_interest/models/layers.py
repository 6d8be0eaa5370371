"""Layers that several models share: activations, normalisation, MLP."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.models.config import Activation
from deep_interest.ops.activations import dice, prelu, standardise_over_ranks
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.mlp import Layer, LayerActivation, Layers, mlp

SumOverRanks = Callable[[Tensor], Tensor]
"""Returns the sum of a tensor over all processes that train together; gradients flow through it."""


class Dice(nn.Module):
    """Data-adaptive activation (DIN eq. 9): a PReLU whose rectification point follows the distribution of the input.

    Args:
        channels: size of the last dimension.
        eps: added to the variance.

    Shape: ``(N, channels) -> (N, channels)``; statistics are those of the N rows in training, moving averages in evaluation.
    """

    sum_over_ranks: SumOverRanks | None = (
        None  # if several processes compute parts of a batch, for common statistics
    )

    def __init__(self, channels: int, *, eps: float = 1e-8) -> None:
        super().__init__()
        self.standardize = nn.BatchNorm1d(channels, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(channels))

    def forward(self, s: Tensor) -> Tensor:
        if (
            self.training and len(s) < 2 and self.sum_over_ranks is None
        ):  # one row is its own mean: (s - E[s]) / sqrt(Var[s] + eps) = 0
            return (s + self.alpha * s) / 2
        norm = self.standardize
        assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
        return dice(
            s, self.alpha, norm.running_mean, norm.running_var, training=self.training, momentum=norm.momentum, eps=norm.eps,
            sum_over_ranks=self.sum_over_ranks,
        )  # fmt: skip


class PReLU(nn.PReLU):
    """PReLU with a slope per channel (DIN eq. 8).

    Shape: ``(N, channels) -> (N, channels)``.
    """

    def forward(self, x: Tensor) -> Tensor:
        return prelu(x, self.weight)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that is bit-identical for any number of threads.

    torch's own operation partitions rows by the number of threads, so that rounding depends on it. Here all sums over rows are
    column-wise reductions, which torch partitions by column. A batch of one row has no variance and uses the moving averages.
    """

    sum_over_ranks: SumOverRanks | None = (
        None  # if several processes compute parts of a batch, for common statistics
    )

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, channels) -> (N, channels)``."""
        if self.training and self.sum_over_ranks is not None:
            return self._over_ranks(x, self.sum_over_ranks)
        if not self.training or len(x) < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        variance, mean = torch.var_mean(x, 0, correction=0)
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        assert self.num_batches_tracked is not None
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (len(x) / (len(x) - 1)), self.momentum)
            self.num_batches_tracked += 1
        return torch.addcmul(self.bias, (x - mean) * (variance + self.eps).rsqrt(), self.weight)

    def _over_ranks(self, x: Tensor, sum_over_ranks: SumOverRanks) -> Tensor:
        """Normalise by the statistics of the rows of all processes; each knows a part of them."""
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        standard = standardise_over_ranks(
            x, self.running_mean, self.running_var, self.momentum, self.eps, sum_over_ranks
        )
        return torch.addcmul(self.bias, standard, self.weight)


class LayerNorm(nn.LayerNorm):
    """Layer normalisation that is bit-identical for any number of threads.

    torch's own gradient of weight and bias partitions rows by the number of threads; here it is a column-wise sum.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(N, width) -> (N, width)``."""
        return torch.addcmul(self.bias, F.layer_norm(x, self.normalized_shape, eps=self.eps), self.weight)


class MLP(nn.Module):
    """Fully connected hidden layers with an activation each, and a linear output layer.

    Args:
        inputs: width of the input.
        hidden: widths of the hidden layers.
        outputs: width of the output.
        activation: activation of the hidden layers.
        batch_norm: whether batch normalisation precedes each activation.
        dropout: probability with which an output of a hidden layer is set to 0 in training; the others are divided by one minus it.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        *,
        outputs: int = 1,
        activation: Activation = "prelu",
        batch_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs, self.dropout = inputs, dropout
        widths = [inputs, *hidden]
        layers: list[nn.Module] = []
        for width, next_width in pairwise(widths):
            layers += [nn.Linear(width, next_width), *([BatchNorm(next_width)] if batch_norm else [])]
            layers.append(make_activation(activation, next_width))
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))

    @cached_property
    def _stages(self) -> list[Layers | nn.Module]:
        return fuse_layers(self.layers)

    @cached_property
    def _stages_with_dropout(self) -> list[Layers | nn.Module]:
        return fuse_layers(self._layers_with_dropout())

    def _layers_with_dropout(self) -> Iterator[nn.Module]:
        """Yield the layers, with dropout before each linear layer but the first."""
        for i, layer in enumerate(self.layers):
            if i and isinstance(layer, nn.Linear):
                yield nn.Dropout(self.dropout)
            yield layer

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(n, inputs) -> (n, outputs)``.

        Raises:
            ValueError: the input has another width; the kernels would read beyond it.
        """
        if x.shape[1] != self.inputs:
            raise ValueError(f"expected an input of width {self.inputs}, found {x.shape[1]}")
        stages = self._stages_with_dropout if self.training and self.dropout else self._stages
        return apply_stages(stages, x, self.accumulator)


def fuse_layers(modules: Iterable[nn.Module]) -> list[Layers | nn.Module]:
    """Group consecutive linear layers and activations that `ops.mlp` supports into `Layers`; keep other modules."""
    stages: list[Layers | nn.Module] = []
    fused: list[Layer] = []
    for part in _with_activations(modules):
        if isinstance(part, Layer):
            fused.append(part)
            continue
        if fused:
            stages.append(Layers(fused))
        stages.append(part)
        fused = []
    return [*stages, Layers(fused)] if fused else stages


def _with_activations(modules: Iterable[nn.Module]) -> Iterator[Layer | nn.Module]:
    """Yield each linear layer with the activation that follows it, if `ops.mlp` supports that."""
    remaining = list(modules)
    while remaining:
        module = remaining.pop(0)
        if not isinstance(module, nn.Linear):
            yield module
            continue
        activation = remaining.pop(0) if remaining and type(remaining[0]) in _FUSED_ACTIVATIONS else None
        slope = activation.weight if isinstance(activation, PReLU) else None
        yield Layer(module.weight, module.bias, _FUSED_ACTIVATIONS.get(type(activation), "linear"), slope)


def apply_stages(
    stages: Iterable[Layers | nn.Module], x: Tensor, accumulator: GradientAccumulator | None = None
) -> Tensor:
    """Apply the result of `fuse_layers`."""
    for stage in stages:
        x = mlp(x, stage, accumulator=accumulator) if isinstance(stage, Layers) else stage(x)
    return x


def make_activation(name: Activation, channels: int) -> nn.Module:
    """Build an activation; PReLU and Dice learn a slope per channel (DIN eq. 8 and 9)."""
    if name == "dice":
        return Dice(channels)
    if name == "prelu":
        return PReLU(channels)
    return {"relu": nn.ReLU, "sigmoid": nn.Sigmoid}[name]()


_FUSED_ACTIVATIONS: dict[type[nn.Module] | type[None], LayerActivation] = {
    PReLU: "prelu",
    nn.ReLU: "relu",
    nn.Sigmoid: "sigmoid",
}


def relies_on_torch(module: nn.Module) -> bool:
    """Whether a large part of a model's work is in PyTorch's own operations, whose bits do not depend on the number of threads.

    Transformers (BST, DMIN) and the LSTM are not among them: MKL splits the product that is the gradient of a weight by the number of
    threads on some CPUs, so PyTorch has one thread in their steps.
    """
    return any(isinstance(child, BatchNorm) for child in module.modules())
