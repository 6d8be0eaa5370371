"""Histories of similar length side by side, for what needs a rectangle: at most half of it is padding."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


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


def length_groups(offsets: Tensor) -> Iterator[LengthGroup]:
    """The groups of the histories ``offsets (B + 1,)`` that are not empty."""
    lengths = offsets.diff()
    classes = torch.ceil(torch.log2(lengths.clamp(min=1).float())).long()
    for number in classes[lengths > 0].unique().tolist():
        samples = ((classes == number) & (lengths > 0)).nonzero().squeeze(1)
        steps = torch.arange(int(lengths[samples].max()), device=offsets.device)
        real = steps < lengths[samples].unsqueeze(1)
        first = offsets[samples].unsqueeze(1)
        yield LengthGroup(samples, torch.where(real, first + steps, first), real)
