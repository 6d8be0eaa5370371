"""Dropout of behaviours, one of the regularisers of DIN §6.5."""

from dataclasses import replace

import numpy as np
import torch

from deep_interest.models.batch import Batch
from deep_interest.ops.runs import sent


def drop_behaviors(batch: Batch, rate: float) -> Batch:
    """The batch with each behaviour left out with probability ``rate``, drawn from torch's random state of the CPU."""
    device = batch.offsets.device
    kept = np.flatnonzero(torch.rand(batch.histories.total).numpy() >= rate)  # where the sizes are wanted
    rows = sent(kept, device)
    return replace(
        batch,
        history={name: codes[rows] for name, codes in batch.history.items()},
        offsets=sent(np.searchsorted(kept, batch.histories.on_host), device),
        negatives=batch.negatives and {name: codes[rows] for name, codes in batch.negatives.items()},
    )
