"""Runs: which rows belong together.

How many rows there are decides the shapes of what follows. Where the host knows it, nothing waits for the device to tell.
"""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor


@dataclass
class Runs:
    """B runs of rows, one after the other; some may be empty.

    Attributes:
        offsets: ``(B + 1,)`` int64; run b has the rows ``[offsets[b], offsets[b + 1])``.
        total: N, the rows of all runs, if known.
        filled: how many runs are not empty, if known.
    """

    offsets: Tensor
    total: int | None = field(default=None, kw_only=True)
    filled: int | None = field(default=None, kw_only=True)

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
        return torch.repeat_interleave(self.lengths, output_size=self.total)

    @property
    def shown(self) -> "Runs":
        """The same runs for rows that were brought to them already."""
        return self

    @cached_property
    def distances(self) -> Tensor:
        """``(N,)`` how many rows of the run come after each one; 0 for the last."""
        return (
            self.offsets[1:][self.segments] - 1 - torch.arange(len(self.segments), device=self.offsets.device)
        )

    @cached_property
    def followed(self) -> Tensor:
        """The rows after which another one of their run comes, in their order."""
        before_last = self.distances > 0
        if self.total is None or self.filled is None:
            return before_last.nonzero().squeeze(1)
        count = self.total - self.filled
        rank = torch.where(
            before_last, before_last.cumsum(0) - 1, count
        )  # count: a place that the others share
        places = torch.arange(self.total, device=rank.device)
        return rank.new_empty(count + 1).scatter_(0, rank, places)[:count]


@dataclass
class Views(Runs):
    """B runs that are looked at in other rows, several of them maybe in the same: runs with equal starts are neighbours.

    Attributes:
        starts: ``(B,)`` int64; run b shows the rows from ``starts[b]`` on, as many as it is long.
    """

    starts: Tensor

    @property
    def shown(self) -> Runs:
        return Runs(self.offsets, total=self.total)

    @cached_property
    def places(self) -> Tensor:
        """``(N,)`` the row that each place shows."""
        shift = self.starts - self.offsets[:-1]
        return shift[self.segments] + torch.arange(len(self.segments), device=self.offsets.device)


def views_of(runs: Runs, owner: Tensor, total: int | None = None) -> Views:
    """The runs that the owners have, ``total`` rows if known; ``owner (B,)`` does not fall."""
    return Views(offsets_of(runs.lengths[owner]), runs.offsets[:-1][owner], total=total)


def offsets_of(lengths: Tensor) -> Tensor:
    """Where runs of these lengths begin, side by side, and the end. Shape: ``(B,) -> (B + 1,)``."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
