"""Activations whose bend is learnt."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """``x`` where it is positive, else ``slope · x``. Shape: ``x (N, C)``, ``slope (C,)`` -> ``(N, C)``."""
    return _PReLU.apply(x, slope) if fits(x, slope) else F.prelu(x, slope)


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, slope)
        y = x.new_empty(x.shape)
        run(_prelu, *arrays(x, slope, y), work=x.numel())
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, slope = ctx.saved_tensors
        to_x, to_slope = x.new_empty(x.shape), x.new_zeros(torch.get_num_threads(), len(slope))
        run(_prelu_backward, *arrays(x, slope, grad, to_x, to_slope), work=x.numel())
        return to_x, to_slope.sum(0)


@compiled
def _prelu(x, slope, y, part, parts):
    first, last = share(len(x), part, parts)
    for i in range(first, last):
        given, out = x[i], y[i]
        for j in range(len(slope)):
            value = given[j]
            out[j] = value if value > 0 else slope[j] * value


@compiled
def _prelu_backward(x, slope, grad, to_x, to_slope, part, parts):
    first, last = share(len(x), part, parts)
    total = to_slope[part]
    for i in range(first, last):
        given, flow, out = x[i], grad[i], to_x[i]
        for j in range(len(slope)):
            positive = given[j] > 0
            out[j] = flow[j] if positive else flow[j] * slope[j]
            total[j] += 0 if positive else flow[j] * given[j]
