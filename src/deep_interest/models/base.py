"""BaseModel: embedding, pooling, MLP (DIN §4.2, DIEN "Review of BaseModel")."""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import DeepConfig
from deep_interest.models.layers import MLP, Embeddings, mean_by_length, segment_sum


class BaseModelConfig(DeepConfig):
    """Options of BaseModel.

    Attributes:
        pooling: of the behaviours' vectors, eq. 1: ``sum`` (both papers' figures) or ``mean``.
    """

    pooling: Literal["sum", "mean"] = "sum"


class EmbeddingMLP(nn.Module, ABC):
    """The frame that BaseModel and the interest models share: embed, represent the history, concatenate, MLP.

    A subclass says how a history becomes a vector, in ``represent``.

    Args:
        config: options; ``hidden`` and ``activation`` shape the MLP.
        schema: the feature groups.
    """

    def __init__(self, config: DeepConfig, schema: FeatureSchema) -> None:
        super().__init__()
        self.schema = schema
        self.embeddings = Embeddings(schema, dim=config.embedding_dim, std=config.embedding_std)
        self.behavior_width = len(schema.behavior) * config.embedding_dim
        self.item_width = len(schema.item) * config.embedding_dim
        others = len(schema.profile) + len(schema.context)
        width = self.behavior_width + self.item_width + others * config.embedding_dim
        self.mlp = MLP(width, config.hidden, activation=config.activation)

    def forward(self, batch: Batch) -> ModelOutput:
        candidate = self.embeddings(batch.candidate, self.schema.item)  # (B, item_width)
        history = self.embeddings(batch.history, self.schema.behavior)  # (N, behavior_width)
        parts = [self.represent(history, candidate, batch), candidate]
        for codes, fields in ((batch.profile, self.schema.profile), (batch.context, self.schema.context)):
            if fields:
                parts.append(self.embeddings(codes, fields))
        return ModelOutput(self.mlp(torch.cat(parts, dim=-1)).squeeze(-1))

    @abstractmethod
    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Tensor:
        """The user's representation. Shape: ``(N, behavior_width)``, ``(B, item_width)`` -> ``(B, behavior_width)``."""


class BaseModel(EmbeddingMLP):
    """The same user vector for every candidate: the pooled behaviours (DIN eq. 1)."""

    Config = BaseModelConfig

    def __init__(self, config: BaseModelConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.pooling = config.pooling

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Tensor:
        pooled = segment_sum(history, batch.segments, batch.size)
        return mean_by_length(pooled, batch.lengths) if self.pooling == "mean" else pooled
