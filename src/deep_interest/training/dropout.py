"""Dropout of behaviours, one of the regularisers of DIN §6.5."""

import torch

from deep_interest.models.batch import Batch
from deep_interest.ops.runs import offsets_of


def drop_behaviors(batch: Batch, rate: float) -> Batch:
    """The batch with each behaviour left out with probability ``rate``, drawn from torch's random state."""
    kept = torch.rand(len(batch.histories.segments), device=batch.offsets.device) >= rate
    lengths = torch.bincount(batch.histories.segments[kept], minlength=batch.histories.size)
    return Batch(
        candidate=batch.candidate,
        history={name: codes[kept] for name, codes in batch.history.items()},
        offsets=offsets_of(lengths),
        profile=batch.profile,
        context=batch.context,
        labels=batch.labels,
        negatives=batch.negatives and {name: codes[kept] for name, codes in batch.negatives.items()},
        owner=batch.owner,
        cells=batch.cells,
    )
