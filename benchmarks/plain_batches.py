"""Jagged batches in plain PyTorch, for the plain models: one vectorised gather per batch, no padding, no Python loop over samples."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass
class PlainBatch:
    """B samples and the N behaviours of their histories.

    Attributes:
        item, category: ``(B,)`` int64 ids of the candidates.
        label: ``(B,)`` float32.
        history_item, history_category: ``(N,)`` int64 ids of the behaviours.
        owner: ``(N,)`` int64, the sample that each behaviour belongs to.
        batch_sizes: ``(T,)`` int64, how many histories have a step t, if the behaviours are in packed order (all first
            behaviours, then all second ones, …, samples sorted by descending length); None if they are sample by sample.
        negative_item, negative_category: ``(N,)`` int64 ids of sampled items, in the order of the behaviours; None without
            an auxiliary loss.
    """

    item: Tensor
    category: Tensor
    label: Tensor
    history_item: Tensor
    history_category: Tensor
    owner: Tensor
    batch_sizes: Tensor | None = None
    negative_item: Tensor | None = None
    negative_category: Tensor | None = None


@dataclass
class PlainSamples:
    """A training set in memory; the ids of all histories are one array.

    Attributes:
        item: ``(n,)`` int64 ids of the candidates.
        label: ``(n,)`` float32.
        starts, lengths: ``(n,)`` int64, where each sample's history begins in ``log`` and how long it is, at least 1.
        log: int64 item ids, history after history, oldest first.
        category_of: ``(I + 1,)`` int64 category of each item id; id 0 is not an item.
    """

    item: Tensor
    label: Tensor
    starts: Tensor
    lengths: Tensor
    log: Tensor
    category_of: Tensor

    @classmethod
    def from_padded(cls, arrays: dict[str, np.ndarray], items: int) -> "PlainSamples":
        """Build from padded arrays.

        Args:
            arrays: as `padded.padded` returns them.
            items: rows of the item table.
        """
        history, lengths = arrays["history_item"], torch.from_numpy(arrays["length"]).long()
        real = np.arange(history.shape[1]) < arrays["length"][:, None]
        category_of = np.zeros(items, np.int64)
        for ids, categories in (("item", "category"), ("history_item", "history_category"), ("negative_item", "negative_category")):  # fmt: skip
            category_of[arrays[ids].ravel()] = arrays[categories].ravel()
        fields = (
            torch.from_numpy(arrays["item"]).long(), torch.from_numpy(arrays["label"]), lengths.cumsum(0) - lengths,
            lengths, torch.from_numpy(history[real]).long(), torch.from_numpy(category_of),
        )  # fmt: skip
        return cls(*(field.to(torch.get_default_device()) for field in fields))

    def batch(self, rows: Tensor) -> PlainBatch:
        """Gather the samples ``rows (B,)``, their behaviours sample by sample."""
        lengths = self.lengths[rows]
        owner = torch.repeat_interleave(lengths)
        shift = self.starts[rows] - (lengths.cumsum(0) - lengths)
        return self._gathered(rows, torch.arange(len(owner)) + shift[owner], owner)

    def packed_batch(self, rows: Tensor) -> PlainBatch:
        """Gather the samples ``rows (B,)`` with sampled items, sorted by descending length, their behaviours in packed order."""
        lengths, order = self.lengths[rows].sort(descending=True, stable=True)
        rows = rows[order]
        steps = torch.arange(int(lengths[0]))
        batch_sizes = (lengths > steps.unsqueeze(1)).sum(1)
        step = torch.repeat_interleave(batch_sizes)
        owner = torch.arange(len(step)) - (batch_sizes.cumsum(0) - batch_sizes)[step]
        batch = self._gathered(rows, self.starts[rows][owner] + step, owner)
        last = len(self.category_of) - 1
        further = torch.randint(1, last, owner.shape)  # never 0: another item than the clicked one
        batch.negative_item = (batch.history_item - 1 + further) % last + 1
        batch.negative_category = self.category_of[batch.negative_item]
        batch.batch_sizes = batch_sizes
        return batch

    def _gathered(self, rows: Tensor, positions: Tensor, owner: Tensor) -> PlainBatch:
        item, history = self.item[rows], self.log[positions]
        return PlainBatch(
            item, self.category_of[item], self.label[rows], history, self.category_of[history], owner
        )
