"""FM: factorisation machine over field vectors (Rendle 2010)."""

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.fm import FMConfig
from deep_interest.models.configs.lr import LRConfig
from deep_interest.models.embeddings import Embeddings, pool
from deep_interest.models.lr import LR
from deep_interest.models.own_fields import OwnFields


class FM(nn.Module):
    """Linear weights of all ids plus the inner products of all pairs of field vectors."""

    Config = FMConfig

    def __init__(self, config: FMConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema, self.config = schema, config
        self.embeddings = Embeddings(schema, dim=config.embedding_dim, std=config.embedding_std)
        self.linear = LR(LRConfig(), schema)
        self.own_fields = None
        if schema.own:
            self.own_fields = OwnFields(schema, len(schema.shared) * config.embedding_dim, config.own_fields)

    def forward(self, batch: Batch) -> ModelOutput:
        schema = self.schema
        appended = () if self.config.own_fields == "scale" else schema.own
        groups = [(batch.history, schema.shared), (batch.history, appended), (batch.candidate, schema.item)]
        optional = [(batch.profile, schema.profile), (batch.context, schema.context)]
        groups = [(codes, fields) for codes, fields in (*groups, *optional) if fields]
        history, *others = self.embeddings.lookup_groups(*groups, value_sets=batch.value_sets)
        if self.own_fields is None:
            pooled = pool(history, batch.histories, self.config.pooling)
        else:
            own = others.pop(0) if appended else None
            pooled = self.own_fields.pooled(history, own, batch, self.config.pooling)
        interest = batch.per_sample(pooled)
        fields = torch.cat([interest, *others], dim=1)
        fields = fields.unflatten(1, (-1, self.config.embedding_dim))  # (B, F, D)
        return ModelOutput(self.linear(batch).logits + pair_products(fields))


def pair_products(fields: Tensor) -> Tensor:
    """``Σ_{i<j} <v_i, v_j>`` as ``(|Σ v|² - Σ |v|²) / 2``. Shape: ``(B, F, D) -> (B,)``."""
    return (fields.sum(1).square().sum(1) - fields.square().sum((1, 2))) / 2
