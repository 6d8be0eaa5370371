"""Popularity: the candidate's number of positive training samples, whoever the user is."""

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.encoding import GOODS
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import ModelConfig
from deep_interest.ops.bounds import check_codes

_NEWTON_STEPS = 50


class PopularityConfig(ModelConfig):
    """Popularity has no options of its own."""


class Popularity(nn.Module):
    """Ranks by ``log(1 + positives)``; a slope and an intercept turn that into a probability, so that log loss is defined.

    Fitted in closed form, it has no seed: its row shows what a protocol's negatives give away.
    """

    Config = PopularityConfig

    def __init__(self, config: PopularityConfig, schema: FeatureSchema) -> None:
        super().__init__()
        sizes = {field.name: field.size for field in schema.item}
        if GOODS not in sizes:
            raise InputError(
                f"features.item: popularity counts {GOODS}, but the item fields are {', '.join(sizes)}"
            )
        self.register_buffer("logits", torch.zeros(sizes[GOODS]))

    def fit(self, candidate: dict[str, Tensor], labels: Tensor) -> None:
        """Count the positives of every goods id.

        Args:
            candidate: ``{field: (n,)}`` codes of the training samples' candidates.
            labels: ``(n,)`` in {0, 1}.
        """
        goods, labels = candidate[GOODS].long(), labels.double()
        popularity = torch.bincount(goods, weights=labels, minlength=len(self.logits)).log1p()
        slope, intercept = _logistic_fit(popularity[goods], labels)
        self.logits.copy_(slope * popularity + intercept)

    def forward(self, batch: Batch) -> ModelOutput:
        goods = batch.candidate[GOODS]
        if goods.is_cpu:
            check_codes(goods.numpy(), len(self.logits), GOODS)
        return ModelOutput(self.logits[goods])


def _logistic_fit(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Slope (kept positive, so that the order stays popularity's) and intercept, by Newton's method."""
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
