"""BaseModel: embedding, pooling, MLP (DIN §4.2, DIEN "Review of BaseModel")."""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema, Pooling
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import DeepConfig
from deep_interest.models.embeddings import Embeddings, Table, pool
from deep_interest.models.layers import MLP


class BaseModelConfig(DeepConfig):
    """Options of BaseModel.

    Attributes:
        pooling: pooling of the behaviour vectors, eq. 1: ``sum`` (both papers) or ``mean``.
    """

    pooling: Pooling = "sum"


class UnfilteredConfig(BaseModelConfig):
    """Options of a BaseModel with additional weights per id, which `keep_top` would not filter."""

    keep_top: Literal[0] = 0


class Interest(NamedTuple):
    """Representation of a history.

    Attributes:
        vector: ``(B, interest_width)`` user representation.
        auxiliary_loss: scalar with its weight applied; None if the model has no auxiliary loss.
    """

    vector: Tensor
    auxiliary_loss: Tensor | None = None


class EmbeddingMLP(nn.Module, ABC):
    """Base class of all deep models: embedding, representation of the history, concatenation, MLP.

    A subclass implements ``represent``, which turns a history into a vector.

    Args:
        config: options; ``hidden`` and ``activation`` describe the MLP.
        schema: feature groups.
        interest_width: width of the vector that ``represent`` returns; the width of a behaviour if left out.
        more_inputs: width of additional inputs of the MLP.
    """

    def __init__(
        self,
        config: DeepConfig,
        schema: FeatureSchema,
        *,
        interest_width: int | None = None,
        more_inputs: int = 0,
    ) -> None:
        super().__init__()
        self.schema = schema
        self.embedding_dim = config.embedding_dim
        self.embeddings = Embeddings(
            schema, dim=config.embedding_dim, std=config.embedding_std, keep_top=config.keep_top
        )
        self.behavior_width = len(schema.behavior) * config.embedding_dim
        self.item_width = len(schema.item) * config.embedding_dim
        others = (len(schema.profile) + len(schema.context)) * config.embedding_dim
        width = (interest_width or self.behavior_width) + self.item_width + others + more_inputs
        self.mlp = MLP(width, config.hidden, activation=config.activation, batch_norm=config.batch_norm)
        self.item_bias = _item_bias(schema) if config.item_bias else None

    def forward(self, batch: Batch) -> ModelOutput:
        features, auxiliary_loss = self.features(batch)
        return ModelOutput(self.logits(features, batch), auxiliary_loss)

    def logits(self, inputs: Tensor, batch: Batch) -> Tensor:
        """Apply the MLP, and add the item bias if there is one. Shape: ``(B, inputs of the MLP) -> (B,)``."""
        logits = self.mlp(inputs).squeeze(-1)
        if self.item_bias is None:
            return logits
        return logits + self.item_bias(batch.candidate[ITEM_ID]).squeeze(-1)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the input of the MLP ``(B, width)`` (interest, candidate, profile, context) and the auxiliary loss."""
        schema = self.schema
        groups = [(batch.candidate, schema.item), (batch.history, schema.behavior)]
        optional = [(batch.profile, schema.profile), (batch.context, schema.context)]
        groups += [(codes, fields) for codes, fields in optional if fields]
        if batch.negatives is not None:
            groups.append((batch.negatives, schema.behavior))
        candidate, history, *others = self.embeddings.lookup_groups(*groups, value_sets=batch.value_sets)
        if batch.negatives is not None:
            batch.negative_vectors = others.pop()
        interest = self.represent(history, candidate, batch)
        return torch.cat([interest.vector, candidate, *others], dim=-1), interest.auxiliary_loss

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Look up the vectors of the behaviours ``(N, behavior_width)`` and of the candidates ``(B, item_width)``."""
        history, candidate = self.embeddings.lookup_groups(
            (batch.history, self.schema.behavior),
            (batch.candidate, self.schema.item),
            value_sets=batch.value_sets,
        )
        return history, candidate

    @abstractmethod
    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        """Represent ``history (N, behavior_width)`` with regard to ``candidate (B, item_width)``."""


def _item_bias(schema: FeatureSchema) -> Table:
    for field in schema.item:
        if field.name == ITEM_ID:
            return Table(field, 1, groups=("item",), std=0.0)
    raise InputError(
        f"item_bias: found the item fields {', '.join(field.name for field in schema.item)}, but a bias per item needs "
        f"{ITEM_ID}; add it to features.item, or set item_bias to false"
    )


class BaseModel(EmbeddingMLP):
    """The user vector is the pooled behaviours, the same for every candidate (DIN eq. 1)."""

    Config: type[BaseModelConfig] = BaseModelConfig

    def __init__(self, config: BaseModelConfig, schema: FeatureSchema, *, more_inputs: int = 0) -> None:
        super().__init__(config, schema, more_inputs=more_inputs)
        self.pooling: Pooling = config.pooling

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        return Interest(batch.per_sample(pool(history, batch.histories, self.pooling)))


class SameFields:
    """Select the fields of the candidate's vector that a behaviour has, in the order of the behaviour.

    Args:
        schema: feature groups.
        dim: embedding width of a field.
        model: name of the model, for the error message.

    Raises:
        InputError: a behaviour has a field that the candidate lacks.
    """

    def __init__(self, schema: FeatureSchema, dim: int, *, model: str) -> None:
        names = [field.name for field in schema.item]
        missing = [field.name for field in schema.behavior if field.name not in names]
        if missing:
            raise InputError(
                f"features.behavior: {model} compares a behaviour's fields with the candidate's, but the item fields "
                f"{', '.join(names)} lack {', '.join(missing)}"
            )
        self.dim = dim
        self.order = [names.index(field.name) for field in schema.behavior]
        self.same_order = self.order == list(range(len(names)))

    def __call__(self, candidate: Tensor) -> Tensor:
        """Shape: ``(B, item_width) -> (B, behavior_width)``."""
        if self.same_order:
            return candidate
        fields = candidate.split(self.dim, dim=1)
        return torch.cat([fields[index] for index in self.order], dim=1)
