"""Histories of similar length side by side, for what needs a rectangle: at most half of it is padding."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.host_copies import copy_to_device


class LengthGroup(NamedTuple):
    """The b histories of lengths in (2^(k-1), 2^k], the longest of which has T behaviours.

    Attributes:
        samples: ``(b,)`` numbers of the histories.
        positions: ``(b, T)`` rows of their behaviours; padding repeats the first.
        real: ``(b, T)`` where there is no padding.
    """

    samples: Tensor
    positions: Tensor
    real: Tensor


def length_groups(runs: Jagged) -> Iterator[LengthGroup]:
    """The groups of the histories that are not empty."""
    lengths, device = np.diff(runs.on_host), runs.offsets.device
    classes = np.ceil(np.log2(lengths.clip(min=1)))
    for number in np.unique(classes[lengths > 0]):
        members = np.flatnonzero((classes == number) & (lengths > 0))
        samples = copy_to_device(members, device)
        steps = torch.arange(int(lengths[members].max()), device=device)
        real = steps < runs.lengths[samples].unsqueeze(1)
        first = runs.offsets[samples].unsqueeze(1)
        yield LengthGroup(samples, torch.where(real, first + steps, first), real)
