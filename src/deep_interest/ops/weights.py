"""Feed-forward nets in one pass: a few rows go through all layers while they are in the cache, forward and backward."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from deep_interest.ops.gradients import is_adding
from deep_interest.ops.kernels.vector import sum_partitions
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.parallel import partition_count, run_kernel


def flatten(parameters: Sequence[Tensor]) -> Tensor:
    """All numbers of a net in one vector: without a copy if they lie so, as an optimiser lays them."""
    numbers = as_one_vector(parameters)
    return torch.cat([parameter.reshape(-1) for parameter in parameters]) if numbers is None else numbers


def as_one_vector(parameters: Sequence[Tensor]) -> Tensor | None:
    """The vector that the parameters are parts of, one after the other; None if they are not."""
    first = parameters[0]
    at = begin = first.data_ptr()
    for parameter in parameters:
        if parameter.data_ptr() != at or not parameter.is_contiguous():
            return None
        at += parameter.nbytes
    size = (at - begin) // first.element_size()
    if first.storage_offset() + size > first.untyped_storage().nbytes() // first.element_size():
        return None
    return first.detach().as_strided((size,), (1,))


class GradientSums(NamedTuple):
    """Where the gradient of the numbers of a net or a GRU is added up.

    Attributes:
        parts: ``(parts, numbers)``, of every part of the operation, see `net_chunks.sums_of`.
        own: ``(numbers,)`` the parameters' own gradients, if they are to be added to.
        shapes: of the parameters.
    """

    parts: Tensor
    own: Tensor | None
    shapes: list[torch.Size]

    @staticmethod
    def of(parameters: Sequence[Tensor], work: int) -> "GradientSums":
        """Room for an operation of so much work, see `compiled.parts_of`."""
        gradients = (
            [parameter.grad for parameter in parameters if parameter.requires_grad] if is_adding() else []
        )
        whole = len(gradients) == len(parameters) and all(gradient is not None for gradient in gradients)
        own = as_one_vector(gradients) if whole else None
        parts, shapes = partition_count(work), [parameter.shape for parameter in parameters]
        if own is not None and parts == 1:
            return GradientSums(own.unsqueeze(0), own, shapes)
        size = sum(shape.numel() for shape in shapes)
        room = parameters[0].new_zeros if parts == 1 else parameters[0].new_empty
        return GradientSums(room(parts, size), own, shapes)

    def gradients(self) -> list[Tensor | None]:
        """What backward returns for the parameters."""
        if self.own is not None:
            if len(self.parts) > 1:
                run_kernel(sum_partitions, *as_arrays(self.parts, self.own), work=self.parts.numel())
            return [None] * len(self.shapes)
        total = self.parts.sum(0) if len(self.parts) > 1 else self.parts[0]
        pieces = total.split([shape.numel() for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
