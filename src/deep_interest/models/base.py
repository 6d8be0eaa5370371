"""BaseModel: embedding, pooling, MLP (DIN §4.2, DIEN "Review of BaseModel")."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field, Pooling
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import DeepConfig
from deep_interest.models.configs.base import BaseModelConfig
from deep_interest.models.embeddings import Embeddings, pool
from deep_interest.models.layers import MLP
from deep_interest.models.own_fields import OwnFields


def behavior_fields(config: DeepConfig, schema: FeatureSchema) -> tuple[Field, ...]:
    """Return the fields whose embeddings are concatenated to the vector of a behaviour."""
    return schema.shared if config.own_fields == "scale" else schema.behavior


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
        self.shared_width = len(schema.shared) * config.embedding_dim
        self.behavior_fields = behavior_fields(config, schema)
        self.behavior_width = len(self.behavior_fields) * config.embedding_dim
        self.own_fields = OwnFields(schema, self.shared_width, config.own_fields) if schema.own else None
        self.item_width = len(schema.item) * config.embedding_dim
        others = (len(schema.profile) + len(schema.context)) * config.embedding_dim
        width = (interest_width or self.behavior_width) + self.item_width + others + more_inputs
        self.mlp = MLP(width, config.hidden, activation=config.activation, batch_norm=config.batch_norm)

    def forward(self, batch: Batch) -> ModelOutput:
        features, auxiliary_loss = self.features(batch)
        return ModelOutput(self.mlp(features).squeeze(-1), auxiliary_loss)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the input of the MLP ``(B, width)`` (interest, candidate, profile, context) and the auxiliary loss."""
        schema = self.schema
        optional = [(batch.profile, schema.profile), (batch.context, schema.context)]
        more = [(codes, fields) for codes, fields in optional if fields]
        if batch.negatives is not None:
            more.append((batch.negatives, schema.shared))
        history, candidate, others = self._look_up(batch, more)
        if batch.negatives is not None:
            batch.negative_vectors = others.pop()
        interest = self.represent(history, candidate, batch)
        return torch.cat([interest.vector, candidate, *others], dim=-1), interest.auxiliary_loss

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Look up the vectors of the behaviours ``(N, behavior_width)`` and of the candidates ``(B, item_width)``."""
        history, candidate, _ = self._look_up(batch, [])
        return history, candidate

    def _look_up(
        self, batch: Batch, more: Sequence[tuple[Mapping[str, Tensor], Sequence[Field]]]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Look up behaviours ``(N, behavior_width)``, candidates ``(B, item_width)`` and more groups, at once."""
        schema = self.schema
        appended = self.behavior_fields[len(schema.shared) :]
        groups = [(batch.candidate, schema.item), (batch.history, schema.shared)]
        groups += [(batch.history, appended)] if appended else []
        candidate, shared, *others = self.embeddings.lookup_groups(
            *groups, *more, value_sets=batch.value_sets
        )
        batch.shared_vectors = shared
        if self.own_fields is None:
            return shared, candidate, others
        concatenated = others.pop(0) if appended else None
        return self.own_fields(shared, concatenated, batch), candidate, others

    @abstractmethod
    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        """Represent ``history (N, behavior_width)`` with regard to ``candidate (B, item_width)``."""


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

    The fields that only a behaviour has are 0 for the candidate: a model that compares both sees them as they are, since
    ``[e; v; e∘v; e-v]`` is ``[e; 0; 0; e]`` there.

    Args:
        schema: feature groups.
        dim: embedding width of a field.
        width: width of a behaviour, including the fields that only a behaviour has.
        model: name of the model, for the error message.

    Raises:
        InputError: behaviours and candidate share no field.
    """

    def __init__(self, schema: FeatureSchema, dim: int, width: int, *, model: str) -> None:
        names = [field.name for field in schema.item]
        if not schema.shared:
            raise InputError(
                f"features.behavior: {model} compares a behaviour's fields with the candidate's, but a behaviour has none of the item "
                f"fields {', '.join(names)}; add one of them"
            )
        self.dim = dim
        self.order = [names.index(field.name) for field in schema.shared]
        self.same_order = self.order == list(range(len(names)))
        self.missing = width - len(self.order) * dim

    def __call__(self, candidate: Tensor) -> Tensor:
        """Shape: ``(B, item_width) -> (B, behavior_width)``."""
        if not self.same_order:
            fields = candidate.split(self.dim, dim=1)
            candidate = torch.cat([fields[index] for index in self.order], dim=1)
        return F.pad(candidate, (0, self.missing)) if self.missing else candidate
