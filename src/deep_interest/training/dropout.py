"""Dropout of behaviours, a regulariser of DIN §6.5."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from deep_interest.models.batch import Batch
from deep_interest.ops.runtime.host_copies import copy_to_device, host_values


def drop_behaviors(batch: Batch, rate: float) -> Batch:
    """Drop each behaviour with probability ``rate``, drawn from torch's random state on the CPU."""
    device = batch.offsets.device
    kept = np.flatnonzero(
        torch.rand(batch.histories.total).numpy() >= rate
    )  # on the host, which needs the sizes
    rows = copy_to_device(kept, device)

    def select(group: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: copy_to_device(host_values(codes)[kept], device)
            if name in batch.value_sets
            else codes[rows]
            for name, codes in group.items()
        }

    return replace(
        batch,
        history=select(batch.history),
        offsets=copy_to_device(np.searchsorted(kept, batch.histories.host_offsets), device),
        negatives=batch.negatives and select(batch.negatives),
        negative_vectors=None,
        sequences={name: drop_behaviors(of, rate) for name, of in batch.sequences.items()},
    )
