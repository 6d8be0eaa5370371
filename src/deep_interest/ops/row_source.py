"""Tables whose rows are not in the memory of this process alone; `embedding.lookup` asks them for rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from deep_interest.ops.gradients import GradientAccumulator


class RowSource(ABC):
    """A table ``(R, D)`` that takes the place of its parameter in `embedding.lookup`, such as one that processes share.

    Attributes:
        shape: R and D.
    """

    shape: torch.Size

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Size of the rows in the memory of this process, in bytes."""

    @abstractmethod
    def look_up(
        self,
        tables: Sequence["RowSource"],
        groups: Sequence[Mapping[int, Tensor]],
        accumulator: GradientAccumulator | None,
    ) -> list[Tensor]:
        """Look up rows of several tables of this kind for several groups of codes; see `embedding.lookup` for the arguments."""
