"""Activations whose bend is learnt."""

import torch
import torch.nn.functional as F
from numba import float32, njit
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, parts_of, run, share
from deep_interest.ops.scratch import empty


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """``x`` where it is positive, else ``slope · x``. Shape: ``x (N, C)``, ``slope (C,)`` -> ``(N, C)``."""
    return _PReLU.apply(x, slope) if fits(x, slope) else F.prelu(x, slope)


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, slope)
        y = empty(x, *x.shape)
        run(_prelu, *arrays(x, slope, y), work=x.numel())
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, slope = ctx.saved_tensors
        to_x, to_slope = empty(x, *x.shape), x.new_zeros(parts_of(x.numel()), len(slope))
        run(_prelu_backward, *arrays(x, slope, grad, to_x, to_slope), work=x.numel())
        return to_x, to_slope.sum(0)


@compiled
def _prelu(x, slope, y, part, parts):
    first, last = share(len(x), part, parts)
    for i in range(first, last):
        bend(x[i], slope, y[i])


@compiled
def _prelu_backward(x, slope, grad, to_x, to_slope, part, parts):
    first, last = share(len(x), part, parts)
    for i in range(first, last):
        bend_backward(x[i], slope, grad[i], to_x[i], to_slope[part])


@njit(inline="always")
def bend(x, slope, y):
    """PReLU of one row."""
    for j in range(len(slope)):
        value = x[j]
        y[j] = value if value > 0 else slope[j] * value


@njit(inline="always")
def bend_backward(x, slope, grad, to_x, to_slope):
    """The gradient of one row; the slope's is added up."""
    for j in range(
        len(slope)
    ):  # few arrays a loop: a compiler proves that they do not overlap, and vectorises
        to_x[j] = grad[j] if x[j] > 0 else grad[j] * slope[j]
    for j in range(len(slope)):
        to_slope[j] += float32(0) if x[j] > 0 else grad[j] * x[j]


@njit(inline="always")
def sigmoid(x):
    half = float32(0.5)
    return half + half * tanh(half * x)


@njit(inline="always")
def tanh(x):
    """``tanh(x)`` to 4e-7 as a quotient of polynomials in x², fitted on [-8, 8]; beyond, float32 knows no difference to ±1."""
    x = min(max(x, float32(-8)), float32(8))
    s = x * x
    over = float32(0.0035716029) + s * (float32(2.1894743e-05) + s * float32(1.5230533e-08))
    over = float32(1) + s * (float32(0.13444502) + s * over)
    under = float32(0.026164461) + s * (float32(0.00034113000) + s * float32(8.5224931e-07))
    under = float32(1) + s * (float32(0.46777829) + s * under)
    return x * over / under
