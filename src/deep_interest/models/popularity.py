"""Baselines that only use the candidate: its number of positive training samples, and its smoothed CTR."""

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.popularity import ItemCTRConfig, PopularityConfig
from deep_interest.ops.bounds import check_codes

_NEWTON_STEPS = 50
_WEAKEST, _STRONGEST = 1.0, 1e6  # bounds of the prior strength, in samples
_SMALLEST_RATE = 1e-6  # if all labels are equal


class Popularity(nn.Module):
    """Rank by ``log(1 + positives)``, calibrated to a probability by a slope and an intercept so that log loss is defined.

    It is fitted in closed form, without a seed. It shows how much the negatives of a protocol reveal about the label.
    """

    Config = PopularityConfig
    logits: Tensor

    def __init__(self, config: PopularityConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(_number_of_items(schema, "popularity")))

    def fit(self, candidate: dict[str, Tensor], labels: Tensor) -> None:
        """Count the positives of each item id.

        Args:
            candidate: ``{field: (n,)}`` codes of the candidates of the training samples.
            labels: ``(n,)`` in {0, 1}.
        """
        item_ids, labels = candidate[ITEM_ID].long(), labels.double()
        popularity = torch.bincount(item_ids, weights=labels, minlength=len(self.logits)).log1p()
        slope, intercept = _logistic_fit(popularity[item_ids], labels)
        self.logits.copy_(slope * popularity + intercept)

    def forward(self, batch: Batch) -> ModelOutput:
        return _lookup_logits(self.logits, batch)


class ItemCTR(nn.Module):
    """Rank by the smoothed CTR of the item, ``(k + a m) / (n + a)``: k positives in n training samples, m the overall mean.

    The prior strength a is the empirical Bayes estimate of `prior_strength`. An item without training samples has the mean.
    With sampled negatives, n counts the positives and the sampled negatives of the item. It is fitted in closed form, without
    a seed.
    """

    Config = ItemCTRConfig
    logits: Tensor

    def __init__(self, config: ItemCTRConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(_number_of_items(schema, "item_ctr")))

    def fit(self, candidate: dict[str, Tensor], labels: Tensor) -> None:
        """Count positives and samples of each item id.

        Args:
            candidate: ``{field: (n,)}`` codes of the candidates of the training samples.
            labels: ``(n,)`` in {0, 1}.
        """
        item_ids, labels = candidate[ITEM_ID].long(), labels.double()
        samples = torch.bincount(item_ids, minlength=len(self.logits)).double()
        positives = torch.bincount(item_ids, weights=labels, minlength=len(self.logits))
        strength = prior_strength(positives, samples)
        rate = (positives + strength * labels.mean()) / (samples + strength)
        self.logits.copy_(torch.logit(rate, eps=_SMALLEST_RATE))

    def forward(self, batch: Batch) -> ModelOutput:
        return _lookup_logits(self.logits, batch)


def _lookup_logits(logits: Tensor, batch: Batch) -> ModelOutput:
    """Look up the logits of the candidates; InputError if a code is outside the table."""
    item_ids = batch.candidate[ITEM_ID]
    if item_ids.is_cpu:
        check_codes(item_ids.numpy(), len(logits), ITEM_ID)
    return ModelOutput(logits[item_ids])


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
        return _STRONGEST
    correlation = float((spread / variance - (len(samples) - 1)) / weight)
    return min(max(1 / correlation - 1, _WEAKEST), _STRONGEST) if correlation > 0 else _STRONGEST


def _number_of_items(schema: FeatureSchema, model: str) -> int:
    sizes = {field.name: field.size for field in schema.item}
    if ITEM_ID not in sizes:
        raise InputError(
            f"features.item: {model} counts {ITEM_ID}, but the item fields are {', '.join(sizes)}; add {ITEM_ID}, or remove "
            f"{model} from rows"
        )
    return sizes[ITEM_ID]


def _logistic_fit(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Fit slope and intercept by Newton's method; the slope is kept positive, so that the ranking does not change."""
    design = torch.stack([x, torch.ones_like(x)], dim=1)  # (n, 2)
    beta = torch.zeros(2, dtype=x.dtype, device=x.device)
    for _ in range(_NEWTON_STEPS):
        p = torch.sigmoid(design @ beta)
        hessian = design.T @ (design * (p * (1 - p)).unsqueeze(1)) + 1e-6 * torch.eye(
            2, dtype=x.dtype, device=x.device
        )
        step = torch.linalg.solve(hessian, design.T @ (y - p))
        beta += step
        if step.abs().max() < 1e-10:
            break
    return max(float(beta[0]), 1e-6), float(beta[1])
