"""Statistics over the batches of all ranks: of Dice and batch normalisation, and of losses that are means over positions."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from deep_interest.distributed import group
from deep_interest.models.auxiliary import AuxiliaryLoss
from deep_interest.models.layers import BatchNorm, Dice


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        return group.sum_over_ranks(tensor.clone(memory_format=torch.contiguous_format))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        return group.sum_over_ranks(grad_output.clone(memory_format=torch.contiguous_format))


def differentiable_sum(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all ranks; its gradient is the sum of the gradients of all ranks."""
    return _Sum.apply(tensor)


def share_statistics(model: nn.Module, weight: Callable[[], float]) -> None:
    """Let the modules of a model take statistics over the batches of all ranks, in place of those of the part of this rank.

    Args:
        model: model.
        weight: returns the part of this rank in the present batch, by which its losses are multiplied.
    """

    def count_over_ranks(count: int) -> float:
        total = torch.tensor(float(count), dtype=torch.float64)
        dist.all_reduce(total)
        return float(total) * weight()

    for module in model.modules():
        if isinstance(module, Dice | BatchNorm):
            module.sum_over_ranks = differentiable_sum
        elif isinstance(module, AuxiliaryLoss):
            module.count_over_ranks = count_over_ranks
