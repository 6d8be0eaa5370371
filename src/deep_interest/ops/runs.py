"""Runs: which rows belong together."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass
class Runs:
    """B runs of rows, one after the other; some may be empty.

    Attributes:
        offsets: ``(B + 1,)`` int64; run b has the rows ``[offsets[b], offsets[b + 1])``.
    """

    offsets: Tensor

    @property
    def size(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Tensor:
        """``(B,)`` rows of each run."""
        return self.offsets.diff()

    @cached_property
    def segments(self) -> Tensor:
        """``(N,)`` the run that each row belongs to."""
        return torch.repeat_interleave(self.lengths)

    @cached_property
    def distances(self) -> Tensor:
        """``(N,)`` how many rows of the run come after each one; 0 for the last."""
        return (
            self.offsets[1:][self.segments] - 1 - torch.arange(len(self.segments), device=self.offsets.device)
        )
