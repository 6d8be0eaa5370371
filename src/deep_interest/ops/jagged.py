"""Jagged batches: the values of all segments, concatenated, and offsets between the segments.

The number of values determines the shapes of what follows. Where the host knows it (`runtime.host_copies`), no
operation waits for the device.
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
    """The segments of a jagged batch; operations take them next to the values.

    Attributes:
        offsets: ``(B + 1,)`` int64; segment b has the values ``[offsets[b], offsets[b + 1])`` and may be empty.
    """

    offsets: Tensor

    @property
    def size(self) -> int:
        """B, the number of segments."""
        return len(self.offsets) - 1

    @cached_property
    def host_offsets(self) -> np.ndarray:
        """``offsets`` on the host."""
        return host_values(self.offsets)

    @property
    def total(self) -> int:
        """N, the number of values."""
        return int(self.host_offsets[-1])

    @cached_property
    def lengths(self) -> Tensor:
        """``(B,)`` number of values of each segment."""
        return self.offsets.diff()

    @cached_property
    def segments(self) -> Tensor:
        """``(N,)`` segment of each value."""
        return torch.repeat_interleave(self.lengths, output_size=self.total)

    @property
    def gathered(self) -> "Jagged":
        """The same segments for values that `segments.expand` has gathered."""
        return self

    @cached_property
    def distances(self) -> Tensor:
        """``(N,)`` number of values of the segment after each value; 0 for the last."""
        positions = torch.arange(len(self.segments), device=self.offsets.device)
        return self.offsets[1:][self.segments] - 1 - positions

    @property
    def followed_total(self) -> int:
        """Number of values that another value of their segment follows."""
        return self.total - int(np.count_nonzero(np.diff(self.host_offsets)))

    @cached_property
    def followed(self) -> Tensor:
        """Positions of the values that another value of their segment follows, ascending."""
        is_followed = self.distances > 0
        count = self.followed_total
        rank = torch.where(
            is_followed, is_followed.cumsum(0) - 1, count
        )  # the others share position ``count``
        positions = torch.arange(self.total, device=rank.device)
        return rank.new_empty(count + 1).scatter_(0, rank, positions)[:count]


@dataclass
class SharedSegments(Jagged):
    """Segments that several samples may share; those with equal starts are neighbours, unless they are empty.

    Attributes:
        starts: ``(B,)`` int64; segment b is the values from ``starts[b]`` on, of its own length.
    """

    starts: Tensor

    @property
    def gathered(self) -> Jagged:
        return Jagged(self.offsets)

    @cached_property
    def positions(self) -> Tensor:
        """``(N,)`` position of the shared value of each gathered value."""
        shift = self.starts - self.offsets[:-1]
        return shift[self.segments] + torch.arange(len(self.segments), device=self.offsets.device)


def share_segments(jagged: Jagged, owner: Tensor) -> SharedSegments:
    """Return the segments that the owners have.

    Args:
        jagged: H segments.
        owner: ``(B,)`` int64, the segment of each result; does not decrease.

    Raises:
        InputError: an owner is not one of the segments, or is smaller than its predecessor.
    """
    owners = host_values(owner)
    check_codes(owners, jagged.size, "owner")
    if (position := first_decrease(owners)) >= 0:
        raise InputError(
            f"owner: history {owners[position]} at position {position} comes after history {owners[position - 1]}; "
            "expected the samples in the order of their histories"
        )
    offsets = np.append(0, np.diff(jagged.host_offsets)[owners].cumsum())
    return SharedSegments(copy_to_device(offsets, owner.device), jagged.offsets[:-1][owner])
