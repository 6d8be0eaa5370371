"""Activations with learned slopes: PReLU and Dice."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.kernels.activations import (
    column_moments,
    dice_backward,
    dice_backward_sums,
    dice_forward,
    prelu_backward,
    prelu_forward,
)
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import partition_count, run_kernel


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Return ``x`` where it is positive, else ``slope · x`` (DIN eq. 8).

    Shape: ``x (N, C)``, ``slope (C,)`` -> ``(N, C)``.
    """
    return _PReLU.apply(x, slope) if can_use_compiled(x, slope) else F.prelu(x, slope)


def dice(
    x: Tensor, alpha: Tensor, running_mean: Tensor, running_var: Tensor, *, training: bool, momentum: float, eps: float,
    sum_over_ranks: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """Apply Dice, a PReLU whose slope follows the distribution of its input (DIN eq. 9).

    ``p x + (1 - p) α x`` with ``p = sigmoid((x - E[x]) / √(Var[x] + eps))``.

    Args:
        x: ``(N, C)``; at least two rows in training.
        alpha: ``(C,)`` slopes.
        running_mean: ``(C,)`` moving average of E[x].
        running_var: ``(C,)`` moving average of Var[x].
        training: whether to take E and Var over the rows and to update the moving averages, which are used otherwise.
        momentum: update rate of the moving averages, as in `torch.nn.BatchNorm1d`.
        eps: value added to the variance.
        sum_over_ranks: returns the sum of a tensor over the processes that compute parts of the batch; None for one process.

    Returns:
        ``(N, C)``.
    """
    if sum_over_ranks is not None and training:
        return _dice_over_ranks(x, alpha, running_mean, running_var, momentum, eps, sum_over_ranks)
    if not can_use_compiled(x, alpha):
        standard = F.batch_norm(x, running_mean, running_var, training=training, momentum=momentum, eps=eps)
        return torch.lerp(alpha * x, x, torch.sigmoid(standard))
    if not training:
        return _Dice.apply(x, alpha, running_mean, (running_var + eps).rsqrt(), False)
    mean, variance = _moments(x)
    running_mean.lerp_(mean, momentum)
    running_var.lerp_(variance * (len(x) / (len(x) - 1)), momentum)
    return _Dice.apply(x, alpha, mean, (variance + eps).rsqrt(), True)


def _dice_over_ranks(
    x: Tensor, alpha: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float,
    sum_over_ranks: Callable[[Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Apply Dice in training with the statistics of the rows of all processes."""
    standard = standardise_over_ranks(x, running_mean, running_var, momentum, eps, sum_over_ranks)
    return torch.lerp(alpha * x, x, torch.sigmoid(standard))


def standardise_over_ranks(
    x: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float,
    sum_over_ranks: Callable[[Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Return ``(x - E[x]) / √(Var[x] + eps)`` for the rows of all processes, and update the moving averages; see `dice`."""
    count = sum_over_ranks(x.new_full((1,), len(x)))
    mean = sum_over_ranks(x.sum(0)) / count
    centred = x - mean
    variance = sum_over_ranks(centred.square().sum(0)) / count
    with torch.no_grad():
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (count / (count - 1).clamp(min=1)), momentum)
    return centred * (variance + eps).rsqrt()


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of each column."""
    sums = torch.zeros(partition_count(x.numel()), 2, x.shape[1], dtype=torch.float64)
    run_kernel(column_moments, *as_arrays(x, sums), work=x.numel())
    mean, square = sums.sum(0) / len(x)
    return mean.float(), (square - mean * mean).clamp(min=0).float()


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
    def backward(ctx, grad_output: Tensor):
        x, slope = ctx.saved_tensors
        grad_x, grad_slope = empty(x, *x.shape), x.new_zeros(partition_count(x.numel()), len(slope))
        run_kernel(prelu_backward, *as_arrays(x, slope, grad_output, grad_x, grad_slope), work=x.numel())
        return grad_x, grad_slope.sum(0)


class _Dice(torch.autograd.Function):
    """``batch_moments``: mean and variance are those of the rows, so that gradients flow through them."""

    @staticmethod
    def forward(ctx, x: Tensor, alpha: Tensor, mean: Tensor, scale: Tensor, batch_moments: bool) -> Tensor:
        x, ctx.batch_moments = x.contiguous(), batch_moments
        p, y = empty(x, *x.shape), empty(x, *x.shape)
        run_kernel(dice_forward, *as_arrays(x, alpha, mean, scale, p, y), work=x.numel())
        ctx.save_for_backward(x, alpha, mean, scale, p)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        x, alpha, mean, scale, p = ctx.saved_tensors
        (grad, *inputs), grad_x = as_arrays(grad_output, x, alpha, mean), empty(x, *x.shape)
        sums = x.new_zeros(partition_count(x.numel()), 3, x.shape[1])
        run_kernel(dice_backward_sums, grad, *inputs, *as_arrays(p, grad_x, sums), work=x.numel())
        grad_alpha, total, products = sums.sum(0)
        weight = ctx.batch_moments / max(1, len(x))
        factors = as_arrays(scale, scale * weight * total, scale.pow(3) * weight * products)
        run_kernel(dice_backward, grad, tuple(inputs), tuple(factors), *as_arrays(p, grad_x), work=x.numel())
        return grad_x, grad_alpha, None, None, None
