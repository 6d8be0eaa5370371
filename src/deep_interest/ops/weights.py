"""Parameters of an operation as one vector, and the sums of their gradients over the partitions of a kernel call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from deep_interest.ops.kernels.vector import add_partition_sums
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.parallel import partition_count, run_kernel

if TYPE_CHECKING:
    from deep_interest.ops.gradients import GradientAccumulator


def flatten(parameters: Sequence[Tensor]) -> Tensor:
    """Return the values of all parameters as one vector ``(P,)``, without a copy if they are adjacent in memory."""
    vector = as_one_vector(parameters)
    return torch.cat([parameter.reshape(-1) for parameter in parameters]) if vector is None else vector


def as_one_vector(tensors: Sequence[Tensor]) -> Tensor | None:
    """Return a view ``(P,)`` of tensors that are adjacent in memory, in this order; None for others.

    `training.update_rules.Flat` makes a model's parameters adjacent, and their gradients.
    """
    first = tensors[0]
    end = begin = first.data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != end or not tensor.is_contiguous():
            return None
        end += tensor.nbytes
    size = (end - begin) // first.element_size()
    if first.storage_offset() + size > first.untyped_storage().nbytes() // first.element_size():
        return None
    return first.detach().as_strided((size,), (1,))


class GradientSums(NamedTuple):
    """The buffer in which a kernel sums the gradients of its parameters.

    Attributes:
        partitions: ``(partitions, P)``, one vector for each partition of the call, see `kernels.vector.partition_sums`.
        target: ``(P,)`` the parameters' own gradients, to which the sums are added; None if they are returned.
        shapes: shapes of the parameters.
    """

    partitions: Tensor
    target: Tensor | None
    shapes: list[torch.Size]

    @classmethod
    def make(
        cls, parameters: Sequence[Tensor], work: int, accumulator: "GradientAccumulator | None"
    ) -> "GradientSums":
        """Return the buffer for a kernel call.

        Args:
            parameters: parameters of the operation.
            work: work of the call, see `runtime.parallel.partition_count`.
            accumulator: where to add the gradients; None to return them to autograd.
        """
        target = None if accumulator is None else accumulator.dense(parameters)
        partitions, shapes = partition_count(work), [parameter.shape for parameter in parameters]
        if target is not None and partitions == 1:
            return cls(target.unsqueeze(0), target, shapes)
        size = sum(shape.numel() for shape in shapes)
        new = parameters[0].new_zeros if partitions == 1 else parameters[0].new_empty
        return cls(new(partitions, size), target, shapes)

    def gradients(self) -> list[Tensor | None]:
        """Return the gradients of the parameters for autograd; None each if they are added to the accumulator's."""
        if self.target is not None:
            if len(self.partitions) > 1:
                arrays = as_arrays(self.partitions, self.target)
                run_kernel(add_partition_sums, *arrays, work=self.partitions.numel())
            return [None] * len(self.shapes)
        total = self.partitions.sum(0) if len(self.partitions) > 1 else self.partitions[0]
        parts = total.split([shape.numel() for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
