"""Dice: a PReLU whose bend follows the distribution of its input (DIN eq. 9)."""

import numpy as np
import torch
import torch.nn.functional as F
from numba import float32
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.activations import sigmoid
from deep_interest.ops.compiled import arrays, compiled, fits, parts_of, run, share
from deep_interest.ops.scratch import empty


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
    if not fits(s, alpha):
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
    sums = torch.zeros(parts_of(s.numel()), 2, s.shape[1], dtype=torch.float64)
    run(_sums, *arrays(s, sums), work=s.numel())
    mean, square = sums.sum(0) / len(s)
    return mean.float(), (square - mean * mean).clamp(min=0).float()


class _Dice(torch.autograd.Function):
    """``moving``: mean and variance are of the rows, and their gradient goes back to them."""

    @staticmethod
    def forward(ctx, s: Tensor, alpha: Tensor, mean: Tensor, scale: Tensor, moving: bool) -> Tensor:
        s, ctx.moving = s.contiguous(), moving
        p, y = empty(s, *s.shape), empty(s, *s.shape)
        run(_forward, *arrays(s, alpha, mean, scale, p, y), work=s.numel())
        ctx.save_for_backward(s, alpha, mean, scale, p)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        s, alpha, mean, scale, p = ctx.saved_tensors
        given, to_s = arrays(grad, s, alpha, mean), empty(s, *s.shape)
        sums = s.new_zeros(parts_of(s.numel()), 3, s.shape[1])
        run(_backward_sums, *given, *arrays(p, to_s, sums), work=s.numel())
        to_alpha, total, products = sums.sum(0)
        share = ctx.moving / max(1, len(s))
        back = arrays(scale, scale * share * total, scale.pow(3) * share * products)
        run(_backward, *given, *back, *arrays(p, to_s), work=s.numel())
        return to_s, to_alpha, None, None, None


@compiled
def _sums(s, sums, part, parts):
    first, last = share(len(s), part, parts)
    total, squares = sums[part, 0], sums[part, 1]
    for i in range(first, last):
        row = s[i]
        for j in range(len(row)):
            total[j] += np.float64(row[j])
        for j in range(len(row)):
            squares[j] += np.float64(row[j]) * np.float64(row[j])


# few arrays a loop: a compiler proves that they do not overlap, and vectorises


@compiled
def _forward(s, alpha, mean, scale, p, y, part, parts):
    first, last = share(len(s), part, parts)
    for i in range(first, last):
        row, by, out = s[i], p[i], y[i]
        for j in range(len(row)):
            by[j] = sigmoid((row[j] - mean[j]) * scale[j])
        for j in range(len(row)):
            out[j] = row[j] * (alpha[j] + by[j] * (float32(1) - alpha[j]))


@compiled
def _backward_sums(grad, s, alpha, mean, p, to_standard, sums, part, parts):
    """The gradient of the standardised rows, its sums as it is and by ``s - mean``, and alpha's gradient."""
    first, last = share(len(s), part, parts)
    to_alpha, total, products = sums[part, 0], sums[part, 1], sums[part, 2]
    for i in range(first, last):
        row, flow, by, out = s[i], grad[i], p[i], to_standard[i]
        for j in range(len(row)):
            out[j] = flow[j] * row[j] * (float32(1) - by[j])
        for j in range(len(row)):
            to_alpha[j] += out[j]
        for j in range(len(row)):
            out[j] *= by[j] * (float32(1) - alpha[j])
        for j in range(len(row)):
            total[j] += out[j]
        for j in range(len(row)):
            products[j] += out[j] * (row[j] - mean[j])


@compiled
def _backward(grad, s, alpha, mean, scale, total, products, p, to_s, part, parts):
    """``to_s`` comes as `_backward_sums` leaves it."""
    first, last = share(len(s), part, parts)
    for i in range(first, last):
        row, flow, by, out = s[i], grad[i], p[i], to_s[i]
        for j in range(len(row)):
            out[j] = scale[j] * out[j] + flow[j] * (alpha[j] + by[j] * (float32(1) - alpha[j]))
        for j in range(len(row)):
            out[j] -= total[j] + products[j] * (row[j] - mean[j])
