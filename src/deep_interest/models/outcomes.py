"""What a behaviour's own fields say about its item: values of their codes, estimated from labels."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.logs.schema import Field
from deep_interest.models.batch import Batch
from deep_interest.models.closed_form import TrainingSamples, batches
from deep_interest.models.history_counts import Pairs
from deep_interest.models.popularity import STRONGEST, prior_strength
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.segments import segment_sum

_ITEM_STRENGTH = 5.0  # behaviours by which the mean value of an item is shrunk to the mean of all
HISTORY_STRENGTH = 3.0  # likewise the mean of a history


class Outcomes(nn.Module):
    """Outcome of each behaviour in each own field: the value of its code, less the means of its item and of its history.

    The value of a code is the smoothed positive rate of the training samples with that code in their history, each behaviour
    counting once, less the rate of all codes; 0 if the codes differ by no more than chance, as where each positive has a sampled
    negative with the same history. So a rating of 5 has a positive value and a rating of 1 a negative one, and no numbers
    have to be given for ratings, actions or dwell times. Values are divided by their standard deviation within items.

    Args:
        fields: one-hot own fields of a behaviour.
        item: field that identifies the item of a behaviour.
        items: number of its codes.
    """

    def __init__(self, fields: Sequence[Field], *, item: str, items: int) -> None:
        super().__init__()
        self.fields, self.item, self.items = list(fields), item, items
        for field in self.fields:
            self.register_buffer(f"value_{field.name}", torch.zeros(field.size))
            self.register_buffer(f"mean_{field.name}", torch.zeros(items))

    def forward(self, batch: Batch) -> Tensor:
        """Return the outcomes ``(N, fields)`` of the behaviours."""
        items, columns = batch.history[self.item].long(), []
        for field in self.fields:
            codes = batch.history[field.name]
            if codes.is_cpu:
                check_codes(codes.numpy(), field.size, field.name)
            value, mean = getattr(self, f"value_{field.name}"), getattr(self, f"mean_{field.name}")
            columns.append(value[codes.long()] - mean[items])
        if not columns:
            return torch.zeros(len(items), 0, device=items.device)
        values, histories = torch.stack(columns, dim=1), batch.histories
        lengths = (histories.lengths + HISTORY_STRENGTH).unsqueeze(1).to(values.dtype)
        means = segment_sum(values, histories) / lengths
        return values - means[histories.segments]

    def fit(self, samples: TrainingSamples, rows: Tensor) -> None:
        """Compute the values of all codes, and the mean value of each item.

        Args:
            samples: training samples.
            rows: ``(m,)`` indices of the samples whose histories and labels are used.
        """
        positives = [np.zeros(field.size) for field in self.fields]
        counts = [np.zeros(self.items * field.size) for field in self.fields]
        for _, batch in batches(samples, rows) if self.fields else ():
            pairs = Pairs(batch)
            items, labels = pairs.codes(self.item).astype(np.int64), batch.labels.double().cpu().numpy()
            for index, field in enumerate(self.fields):
                codes = pairs.codes(field.name)
                positives[index] += np.bincount(codes, labels[pairs.sample], minlength=field.size)
                counts[index] += np.bincount(items * field.size + codes, minlength=len(counts[index]))
        for field, hits, number in zip(self.fields, positives, counts, strict=True):
            value, mean = _values(hits, number.reshape(self.items, field.size))
            getattr(self, f"value_{field.name}").copy_(torch.from_numpy(value))
            getattr(self, f"mean_{field.name}").copy_(torch.from_numpy(mean))


def _values(positives: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of each code, ``(size,)``, and the mean value of each item, ``(items,)``.

    Args:
        positives: ``(size,)`` behaviours with each code in the histories of positive samples.
        counts: ``(items, size)`` behaviours with each item and code in the histories of all samples.
    """
    total = counts.sum(0)
    rate = positives.sum() / max(total.sum(), 1)
    strength = (
        prior_strength(torch.from_numpy(positives), torch.from_numpy(total)) if total.any() else STRONGEST
    )
    if strength == STRONGEST:  # the codes differ by chance alone
        return np.zeros(len(total)), np.zeros(len(counts))
    value = (positives + strength * rate) / (total + strength) - rate
    mean = counts @ value / (counts.sum(1) + _ITEM_STRENGTH)
    spread = np.sqrt((counts * (value - mean[:, None]) ** 2).sum() / max(total.sum(), 1))
    return (value / spread, mean / spread) if spread > 0 else (value, mean)
