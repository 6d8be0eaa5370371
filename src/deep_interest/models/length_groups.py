"""Groups of histories of similar length, for operations that need rectangular input: at most half of it is padding."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.host_copies import copy_to_device


class LengthGroup(NamedTuple):
    """The b histories with lengths in (2^(k-1), 2^k]; the longest has T behaviours.

    Attributes:
        samples: ``(b,)`` indices of the histories.
        positions: ``(b, T)`` rows of their behaviours; padding repeats the first one.
        real: ``(b, T)`` False for padding.
    """

    samples: Tensor
    positions: Tensor
    real: Tensor


def length_groups(runs: Jagged) -> Iterator[LengthGroup]:
    """Yield the groups of all histories that are not empty."""
    lengths, device = np.diff(runs.host_offsets), runs.offsets.device
    classes = np.ceil(np.log2(lengths.clip(min=1)))
    for number in np.unique(classes[lengths > 0]):
        members = np.flatnonzero((classes == number) & (lengths > 0))
        samples = copy_to_device(members, device)
        steps = torch.arange(int(lengths[members].max()), device=device)
        real = steps < runs.lengths[samples].unsqueeze(1)
        first = runs.offsets[samples].unsqueeze(1)
        yield LengthGroup(samples, torch.where(real, first + steps, first), real)
