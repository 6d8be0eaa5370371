"""Dropout of behaviours, one of the regularisers of DIN §6.5."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from deep_interest.models.batch import Batch
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values


def drop_behaviors(batch: Batch, rate: float) -> Batch:
    """The batch with each behaviour left out with probability ``rate``, drawn from torch's random state of the CPU."""
    device = batch.offsets.device
    kept = np.flatnonzero(torch.rand(batch.histories.total).numpy() >= rate)  # where the sizes are wanted
    rows = copy_to_device(kept, device)

    def left(group: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: copy_to_device(host_values(codes)[kept], device) if name in batch.cells else codes[rows]
            for name, codes in group.items()
        }

    return replace(
        batch,
        history=left(batch.history),
        offsets=copy_to_device(np.searchsorted(kept, batch.histories.on_host), device),
        negatives=batch.negatives and left(batch.negatives),
        drawn=None,
    )
