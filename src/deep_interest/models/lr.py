"""LR: logistic regression over sparse ids, the weak baseline of DIN §6.3."""

import torch
from torch import nn

from deep_interest.logs.schema import GROUPS, FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.lr import LRConfig
from deep_interest.models.embeddings import Table, pool


class LR(nn.Module):
    """One weight per id and feature group, so that an item has one weight as candidate and another as behaviour.

    The weights of the behaviours are averaged over the history, so that long histories do not saturate the sigmoid. The
    weights of the values of a multi-hot field are pooled as configured for the field; the weight of a dense field is multiplied by the
    value.
    """

    Config = LRConfig

    def __init__(self, config: LRConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        self.weights = nn.ModuleDict(
            {
                f"{group}_{field.name}": Table(field, 1, groups=() if field.derived else (group,), std=0.0)
                for group in GROUPS
                for field in schema.fields(group)
            }
        )
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, batch: Batch) -> ModelOutput:
        histories, logits = batch.histories, self.bias.expand(batch.size)
        for group in GROUPS:
            for field in self.schema.fields(group):
                codes, value_sets = batch.values(group, field.name)
                weights = self.weights[f"{group}_{field.name}"](codes)
                if value_sets is not None and field.pooling is not None:
                    weights = pool(weights, value_sets, field.pooling)
                if group == "behavior":
                    weights = batch.per_sample(pool(weights, histories, "mean"))
                logits = logits + weights.squeeze(-1)
        return ModelOutput(logits)
