"""Rows that several operations take: the sum of the gradients that come back, in one pass by all threads."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.scratch import empty


def shared(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows for two users. Shape: ``(N, D) -> 2 x (N, D)``."""
    if rows.requires_grad and fits(rows):
        return _Shared.apply(rows)
    return rows, rows


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return rows.view_as(rows), rows.view_as(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx, one: Tensor | None, other: Tensor | None):
        if one is None or other is None:
            return one if other is None else other
        total = empty(one, *one.shape)
        run(_sum, *arrays(one, other, total), work=2 * total.numel())
        return total


@compiled
def _sum(one, other, total, part, parts):
    first, last = share(len(total), part, parts)
    for i in range(first, last):
        a, b, out = one[i], other[i], total[i]
        for j in range(len(out)):
            out[j] = a[j] + b[j]
