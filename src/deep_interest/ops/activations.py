"""Activations whose bend is learnt."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.kernels.activations import (
    dice_backward,
    dice_backward_sums,
    dice_forward,
    moment_sums,
    prelu_backward,
    prelu_forward,
)
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import partition_count, run_kernel


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """``x`` where it is positive, else ``slope · x``. Shape: ``x (N, C)``, ``slope (C,)`` -> ``(N, C)``."""
    return _PReLU.apply(x, slope) if can_use_compiled(x, slope) else F.prelu(x, slope)


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, slope)
        y = empty(x, *x.shape)
        run_kernel(prelu_forward, *as_arrays(x, slope, y), work=x.numel())
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, slope = ctx.saved_tensors
        to_x, to_slope = empty(x, *x.shape), x.new_zeros(partition_count(x.numel()), len(slope))
        run_kernel(prelu_backward, *as_arrays(x, slope, grad, to_x, to_slope), work=x.numel())
        return to_x, to_slope.sum(0)


def dice(
    s: Tensor, alpha: Tensor, running_mean: Tensor, running_var: Tensor, *, training: bool, momentum: float, eps: float
) -> Tensor:  # fmt: skip
    """``p s + (1 - p) α s`` with ``p = sigmoid((s - E[s]) / √(Var[s] + eps))``.

    Args:
        s: ``(N, C)``; in training at least two rows.
        alpha: ``(C,)``.
        running_mean, running_var: ``(C,)`` moving averages of E and Var.
        training: E and Var are of the rows at hand, and the moving averages are moved; else they are the averages.
        momentum: how far the averages move, as in `torch.nn.BatchNorm1d`.
        eps: added to the variance.

    Returns:
        ``(N, C)``.
    """
    if not can_use_compiled(s, alpha):
        standard = F.batch_norm(s, running_mean, running_var, training=training, momentum=momentum, eps=eps)
        return torch.lerp(alpha * s, s, torch.sigmoid(standard))
    if not training:
        return _Dice.apply(s, alpha, running_mean, (running_var + eps).rsqrt(), False)
    mean, variance = _moments(s)
    running_mean.lerp_(mean, momentum)
    running_var.lerp_(variance * (len(s) / (len(s) - 1)), momentum)
    return _Dice.apply(s, alpha, mean, (variance + eps).rsqrt(), True)


def _moments(s: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each column."""
    sums = torch.zeros(partition_count(s.numel()), 2, s.shape[1], dtype=torch.float64)
    run_kernel(moment_sums, *as_arrays(s, sums), work=s.numel())
    mean, square = sums.sum(0) / len(s)
    return mean.float(), (square - mean * mean).clamp(min=0).float()


class _Dice(torch.autograd.Function):
    """``moving``: mean and variance are of the rows, and their gradient goes back to them."""

    @staticmethod
    def forward(ctx, s: Tensor, alpha: Tensor, mean: Tensor, scale: Tensor, moving: bool) -> Tensor:
        s, ctx.moving = s.contiguous(), moving
        p, y = empty(s, *s.shape), empty(s, *s.shape)
        run_kernel(dice_forward, *as_arrays(s, alpha, mean, scale, p, y), work=s.numel())
        ctx.save_for_backward(s, alpha, mean, scale, p)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        s, alpha, mean, scale, p = ctx.saved_tensors
        given, to_s = as_arrays(grad, s, alpha, mean), empty(s, *s.shape)
        sums = s.new_zeros(partition_count(s.numel()), 3, s.shape[1])
        run_kernel(dice_backward_sums, *given, *as_arrays(p, to_s, sums), work=s.numel())
        to_alpha, total, products = sums.sum(0)
        share = ctx.moving / max(1, len(s))
        back = as_arrays(scale, scale * share * total, scale.pow(3) * share * products)
        run_kernel(dice_backward, *given, *back, *as_arrays(p, to_s), work=s.numel())
        return to_s, to_alpha, None, None, None
