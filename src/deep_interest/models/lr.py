"""LR: logistic regression over the sparse ids, the weak baseline of DIN §6.3."""

import torch
from torch import nn

from deep_interest.logs.schema import GROUPS, FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import ModelConfig
from deep_interest.models.layers import Table, pool


class LRConfig(ModelConfig):
    """LR has no options of its own."""


class LR(nn.Module):
    """One weight per id of every feature group; a behaviour's ids have weights of their own (visited items, …).

    The behaviours' weights are averaged over the history, so that a long history does not saturate the sigmoid. Those of a
    multi-hot field's values are pooled as the field says.
    """

    Config = LRConfig

    def __init__(self, config: LRConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        self.weights = nn.ModuleDict(
            {
                f"{group}_{field.name}": Table(field, 1, groups=(group,), std=0.0)
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
                if value_sets is not None:
                    weights = pool(weights, value_sets, field.pooling)
                if group == "behavior":
                    weights = batch.per_sample(pool(weights, histories, "mean"))
                logits = logits + weights.squeeze(-1)
        return ModelOutput(logits)
