"""Runs: which rows belong together.

How many rows there are decides the shapes of what follows. Where the host knows it (`ops.host`), nothing waits for the device to tell.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.ops.bounds import check_codes, first_decrease
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values


@dataclass
class Jagged:
    """B runs of rows, one after the other; some may be empty.

    Attributes:
        offsets: ``(B + 1,)`` int64; run b has the rows ``[offsets[b], offsets[b + 1])``.
    """

    offsets: Tensor

    @property
    def size(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def on_host(self) -> np.ndarray:
        """``offsets`` on the host."""
        return host_values(self.offsets)

    @property
    def total(self) -> int:
        """N, the rows of all runs."""
        return int(self.on_host[-1])

    @cached_property
    def lengths(self) -> Tensor:
        """``(B,)`` rows of each run."""
        return self.offsets.diff()

    @cached_property
    def segments(self) -> Tensor:
        """``(N,)`` the run that each row belongs to."""
        return torch.repeat_interleave(self.lengths, output_size=self.total)

    @property
    def shown(self) -> "Jagged":
        """The same runs for rows that were brought to them already."""
        return self

    @cached_property
    def distances(self) -> Tensor:
        """``(N,)`` how many rows of the run come after each one; 0 for the last."""
        return (
            self.offsets[1:][self.segments] - 1 - torch.arange(len(self.segments), device=self.offsets.device)
        )

    @property
    def followed_total(self) -> int:
        """How many rows have another row of their run after them."""
        return self.total - int(np.count_nonzero(np.diff(self.on_host)))

    @cached_property
    def followed(self) -> Tensor:
        """The rows after which another one of their run comes, in their order."""
        before_last = self.distances > 0
        count = self.followed_total
        rank = torch.where(
            before_last, before_last.cumsum(0) - 1, count
        )  # count: a place that the others share
        places = torch.arange(self.total, device=rank.device)
        return rank.new_empty(count + 1).scatter_(0, rank, places)[:count]


@dataclass
class SharedSegments(Jagged):
    """B runs that are looked at in other rows, several of them maybe in the same: those with equal starts are neighbours,
    unless they are empty.

    Attributes:
        starts: ``(B,)`` int64; run b shows the rows from ``starts[b]`` on, as many as it is long.
    """

    starts: Tensor

    @property
    def shown(self) -> Jagged:
        return Jagged(self.offsets)

    @cached_property
    def places(self) -> Tensor:
        """``(N,)`` the row that each place shows."""
        shift = self.starts - self.offsets[:-1]
        return shift[self.segments] + torch.arange(len(self.segments), device=self.offsets.device)


def share_segments(runs: Jagged, owner: Tensor) -> SharedSegments:
    """The runs that the owners have.

    Args:
        runs: H runs.
        owner: ``(B,)`` int64, the run of each view; does not decrease.

    Raises:
        InputError: an owner is not one of the runs, or is smaller than the one before.
    """
    owners = host_values(owner)
    check_codes(owners, runs.size, "owner")
    if (position := first_decrease(owners)) >= 0:
        raise InputError(
            f"owner: history {owners[position]} at position {position} comes after history {owners[position - 1]}; expected the "
            "samples in the order of their histories"
        )
    offsets = np.append(0, np.diff(runs.on_host)[owners].cumsum())
    return SharedSegments(copy_to_device(offsets, owner.device), runs.offsets[:-1][owner])
