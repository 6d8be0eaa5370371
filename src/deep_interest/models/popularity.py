"""Baselines that only use the candidate: its number of positive training samples, and its smoothed positive rate."""

import torch
from torch import Tensor, nn

from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.closed_form import TrainingSamples, number_of_items
from deep_interest.models.configs.popularity import ItemRateConfig, PopularityConfig
from deep_interest.models.logistic import fit_logistic
from deep_interest.ops.bounds import check_codes

_FLATTEST = 1e-6
_WEAKEST, STRONGEST = 1.0, 1e6  # bounds of the prior strength, in samples
_SMALLEST_RATE = 1e-6  # if all labels are equal


class Popularity(nn.Module):
    """Rank by ``log(1 + positives)``, calibrated to a probability by a slope and an intercept so that log loss is defined.

    It is fitted in closed form, without a seed. It shows how much the negatives of a protocol reveal about the label.
    """

    Config = PopularityConfig
    logits: Tensor

    def __init__(self, config: PopularityConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        self.register_buffer("logits", torch.zeros(number_of_items(schema, "popularity")))

    def fit(self, samples: TrainingSamples) -> None:
        """Count the positives of each item id."""
        item_ids, labels = samples.candidates()[ITEM_ID].long(), samples.labels.double()
        popularity = torch.bincount(item_ids, weights=labels, minlength=len(self.logits)).log1p()
        x = popularity[item_ids]
        slope, intercept = fit_logistic(torch.stack([x, torch.ones_like(x)], dim=1), labels)
        self.logits.copy_(slope.clamp(min=_FLATTEST) * popularity + intercept)  # never reverses the ranking

    def forward(self, batch: Batch) -> ModelOutput:
        return _lookup_logits(self.logits, batch)


class ItemRate(nn.Module):
    """Rank by the item's smoothed positive rate, ``(k + a m) / (n + a)``: k positives in n training samples, m the overall mean.

    The prior strength a is the empirical Bayes estimate of `prior_strength`. An item without training samples has the mean.
    With sampled negatives, n counts the positives and the sampled negatives of the item. It is fitted in closed form, without
    a seed.
    """

    Config = ItemRateConfig
    logits: Tensor

    def __init__(self, config: ItemRateConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        self.register_buffer("logits", torch.zeros(number_of_items(schema, "item_rate")))

    def fit(self, samples: TrainingSamples) -> None:
        """Count positives and samples of each item id."""
        item_ids, labels = samples.candidates()[ITEM_ID].long(), samples.labels.double()
        rates = item_rates(item_ids, labels, items=len(self.logits))
        self.logits.copy_(torch.logit(rates, eps=_SMALLEST_RATE))

    def forward(self, batch: Batch) -> ModelOutput:
        return _lookup_logits(self.logits, batch)


def _lookup_logits(logits: Tensor, batch: Batch) -> ModelOutput:
    """Look up the logits of the candidates; InputError if a code is outside the table."""
    item_ids = batch.candidate[ITEM_ID]
    if item_ids.is_cpu:
        check_codes(item_ids.numpy(), len(logits), ITEM_ID)
    return ModelOutput(logits[item_ids])


def item_rates(item_ids: Tensor, labels: Tensor, *, items: int) -> Tensor:
    """Return the smoothed positive rate of each item code, ``(items,)`` float64.

    Args:
        item_ids: ``(n,)`` int64 codes of the candidates.
        labels: ``(n,)`` float64 in {0, 1}.
        items: number of codes.
    """
    counts = torch.bincount(item_ids, minlength=items).double()
    positives = torch.bincount(item_ids, weights=labels, minlength=items)
    strength = prior_strength(positives, counts)
    return (positives + strength * labels.mean()) / (counts + strength)


def prior_strength(positives: Tensor, samples: Tensor) -> float:
    """Estimate the strength of a beta prior of the item rates by moments (Kleinman 1973, with weights n_i).

    The rate of item i, ``p_i = k_i / n_i``, has the variance ``m (1 - m) (1 + (n_i - 1) ρ) / n_i`` around the mean m of all N
    samples, where ``ρ = 1 / (a + 1)`` is the correlation of the labels of an item. With ``S = Σ n_i (p_i - m)²`` over I items

        ρ = (S / (m (1 - m)) - (I - 1)) / Σ (n_i - 1) (1 - n_i / N)

    and ``a = 1 / ρ - 1``, limited to at least 1, so that no item with few samples has a rate of 0 or 1, and at most one million,
    the value if the rates differ by no more than chance.

    Args:
        positives: ``(I,)`` k_i.
        samples: ``(I,)`` n_i; items without samples are ignored.
    """
    positives, samples = positives[samples > 0], samples[samples > 0]
    total = samples.sum()
    mean = positives.sum() / total
    spread = (samples * (positives / samples - mean) ** 2).sum()
    weight = ((samples - 1) * (1 - samples / total)).sum()
    variance = mean * (1 - mean)
    if variance == 0 or weight == 0:
        return STRONGEST
    correlation = float((spread / variance - (len(samples) - 1)) / weight)
    return min(max(1 / correlation - 1, _WEAKEST), STRONGEST) if correlation > 0 else STRONGEST
