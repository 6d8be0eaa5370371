"""Layers of trained models in evaluation mode, for inputs ``(…, channels)``."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.models.layers import MLP, BatchNorm, Dice, PReLU


def apply_layers(layers: nn.Module, x: Tensor) -> Tensor:
    """Apply layers one after the other. Shape: ``(…, inputs) -> (…, outputs)``."""
    for layer in layers.children():
        x = _apply(layer, x)
    return x


def mlp(module: MLP, x: Tensor) -> Tensor:
    """Apply an MLP. Shape: ``(…, inputs) -> (…, outputs)``."""
    return apply_layers(module.layers, x)


def activate(activation: nn.Module, x: Tensor) -> Tensor:
    """Apply an activation. Shape: ``(…, channels) -> (…, channels)``."""
    return _apply(activation, x)


def _apply(layer: nn.Module, x: Tensor) -> Tensor:
    if isinstance(layer, PReLU):
        return F.prelu(x.flatten(0, -2), layer.weight).view_as(x)  # ONNX Runtime has a kernel for rows
    if isinstance(layer, Dice):
        return torch.lerp(layer.alpha * x, x, torch.sigmoid(_standardise(layer.standardize, x)))
    if isinstance(layer, BatchNorm):
        return _standardise(layer, x) * layer.weight + layer.bias
    return layer(x)


def _standardise(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    return (x - mean) * (variance + norm.eps).rsqrt()


def masked_softmax(scores: Tensor, real: Tensor) -> Tensor:
    """Return the softmax over the last dimension where ``real`` is not 0, and 0 elsewhere; 0 everywhere if nothing is
    real.

    Args:
        scores: ``(…, T)``.
        real: float, broadcast to the scores.
    """
    lowest = torch.finfo(scores.dtype).min
    return F.softmax(scores.masked_fill(real == 0, lowest), dim=-1) * real
