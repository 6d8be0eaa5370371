"""LR: logistic regression over the sparse ids, the weak baseline of DIN §6.3."""

import torch
from torch import nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import ModelConfig
from deep_interest.models.layers import segment_sum


class LRConfig(ModelConfig):
    """LR has no options."""


class LR(nn.Module):
    """One weight per id of every feature group; a behaviour's ids have weights of their own (visited goods, …).

    The behaviours' weights are averaged over the history, so that a long history does not saturate the sigmoid.
    """

    Config = LRConfig

    def __init__(self, config: LRConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        self.weights = nn.ModuleDict(
            {
                f"{group}_{field.name}": nn.Embedding(field.size, 1, sparse=True)
                for group, fields in self._groups()
                for field in fields
            }
        )
        for table in self.weights.values():
            nn.init.zeros_(table.weight)
        self.bias = nn.Parameter(torch.zeros(()))

    def _groups(self):
        return [(group, getattr(self.schema, group)) for group in ("item", "behavior", "profile", "context")]

    def forward(self, batch: Batch) -> ModelOutput:
        codes = {"item": batch.candidate, "profile": batch.profile, "context": batch.context}
        logits = self.bias.expand(batch.size)
        for group, fields in self._groups():
            for field in fields:
                weights = self.weights[f"{group}_{field.name}"]
                if group == "behavior":
                    visited = weights(batch.history[field.name]).squeeze(-1)  # (N,)
                    logits = logits + segment_sum(visited, batch.segments, batch.size) / batch.lengths.clamp(
                        min=1
                    )
                else:
                    logits = logits + weights(codes[group][field.name]).squeeze(-1)  # (B,)
        return ModelOutput(logits)
