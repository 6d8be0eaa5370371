"""BaseModel: embedding, pooling, MLP (DIN §4.2, DIEN "Review of BaseModel")."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema, Field, Pooling
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.config import DeepConfig, OneInterestConfig
from deep_interest.models.configs.base import BaseModelConfig
from deep_interest.models.embeddings import Embeddings, Table, embedding_tables, pool
from deep_interest.models.layers import MLP
from deep_interest.models.match_counts import MatchCounts
from deep_interest.models.own_fields import OwnFields
from deep_interest.models.shared_fields import InterestProduct
from deep_interest.models.stacking import stacked, stacking_of


def behavior_fields(config: DeepConfig, schema: FeatureSchema) -> tuple[Field, ...]:
    """Return the fields whose embeddings are concatenated to the vector of a behaviour."""
    return schema.shared if config.own_fields == "scale" else schema.behavior


def behavior_width(config: DeepConfig, schema: FeatureSchema) -> int:
    """Return the width of the vector of a behaviour."""
    return sum(field_widths(config, schema, behavior_fields(config, schema)))


def field_widths(config: DeepConfig, schema: FeatureSchema, fields: Sequence[Field]) -> list[int]:
    """Return the embedding width of each field; a field that only behaviours have may be narrower."""
    own = schema.own_names
    return [config.own_width if field.name in own else config.embedding_dim for field in fields]


class Interest(NamedTuple):
    """Representation of a history.

    Attributes:
        vector: ``(B, interest_width)`` user representation.
        auxiliary_loss: scalar with its weight applied; None if the model has no auxiliary loss.
    """

    vector: Tensor
    auxiliary_loss: Tensor | None = None


class Embedded(NamedTuple):
    """Embeddings of a batch.

    Attributes:
        history: what `represent` takes: ``(N, behavior_width)`` behaviours, or the pooled histories ``(H, behavior_width)`` of BaseModel.
        candidate: ``(B, item_width)`` candidates.
        sequences: the same of each further sequence.
        others: ``(B, width)`` of profile and context, if there are such features.
    """

    history: Tensor
    candidate: Tensor
    sequences: list[Tensor]
    others: list[Tensor]


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
            schema, dim=config.embedding_dim, own_dim=config.own_width, std=config.embedding_std, keep_top=config.keep_top
        )  # fmt: skip
        self.shared_width = len(schema.shared) * config.embedding_dim
        self.behavior_fields = behavior_fields(config, schema)
        self.behavior_width = behavior_width(config, schema)
        self.own_fields = OwnFields(schema, self.shared_width, config.own_fields) if schema.own else None
        self.item_width = len(schema.item) * config.embedding_dim
        others = (len(schema.profile) + len(schema.context)) * config.embedding_dim
        self.interest_width = interest_width or self.behavior_width
        self.sequences = nn.ModuleDict(
            {name: self._for_sequence(config, schema, name) for name in schema.sequences}
        )
        others += sum(module.interest_width for module in self.sequence_models.values())
        self.match_counts = MatchCounts(schema) if config.match_counts else None
        if self.match_counts is not None:
            more_inputs += self.match_counts.width
        self.product = None
        if isinstance(config, OneInterestConfig) and config.interest_product:
            self.product = InterestProduct(schema, config.embedding_dim, self.interest_width)
            more_inputs += self.product.width
        width = self.interest_width + self.item_width + others + more_inputs
        self.mlp = MLP(
            width, config.hidden, activation=config.activation, batch_norm=config.batch_norm, dropout=config.mlp_dropout
        )  # fmt: skip
        self.item_bias = _item_bias(schema) if config.item_bias else None
        self.stacking = stacking_of(schema, wanted=config.stack_neighbours)

    def _for_sequence(self, config: DeepConfig, schema: FeatureSchema, name: str) -> "EmbeddingMLP":
        """Return a model that represents a further sequence as this one does, with the embeddings of this one."""
        represents = config.without_additions()
        model = self._representing(represents, schema.of_sequence(name))
        del model.embeddings, model.mlp
        for table in embedding_tables(model):
            table.groups, table.sequences = (), (name,) if table.groups else ()
        return model

    def _representing(self, config: DeepConfig, schema: FeatureSchema) -> "EmbeddingMLP":
        return type(self)(config, schema)

    @property
    def sequence_models(self) -> dict[str, "EmbeddingMLP"]:
        """Models of the further sequences, by name."""
        return cast("dict[str, EmbeddingMLP]", dict(self.sequences.items()))

    def forward(self, batch: Batch) -> ModelOutput:
        features, auxiliary_loss = self.features(batch)
        return ModelOutput(self.logits(features, batch), auxiliary_loss)

    def logits(self, inputs: Tensor, batch: Batch, *added: Tensor) -> Tensor:
        """Return the logits ``(B,)`` of ``inputs (B, width)``.

        They are those of the MLP, which has the product of interest and candidate and the match counts as inputs too if there are any,
        plus the item bias if there is one, plus the terms ``added (B,)`` of a subclass; the score of the neighbourhood is stacked on
        this sum.
        """
        inputs = self.with_product(inputs)
        if self.match_counts is not None:
            inputs = torch.cat([inputs, self.match_counts(batch).to(inputs.dtype)], dim=1)
        logits = reduce(add, added, self.with_item_bias(self.mlp(inputs).squeeze(-1), batch))
        return stacked(self.stacking, logits, batch, training=self.training)

    def with_product(self, inputs: Tensor) -> Tensor:
        """Append the product of interest and candidate if it is an input of the MLP. Shape: ``(B, width) -> (B, width + product)``."""
        return inputs if self.product is None else torch.cat([inputs, self.product(inputs)], dim=1)

    def with_item_bias(self, logits: Tensor, batch: Batch) -> Tensor:
        """Add the item bias of the candidates if there is one. Shape: ``(B,) -> (B,)``."""
        if self.item_bias is None:
            return logits
        return logits + self.item_bias(batch.candidate[ITEM_ID]).squeeze(-1)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the input of the MLP ``(B, width)`` (interest, candidate, profile, context) and the auxiliary loss."""
        return self.features_of(self.look_up(batch), batch)

    def look_up(self, batch: Batch) -> Embedded:
        """Look up everything that the model sees of a batch, and the negatives of an auxiliary loss."""
        schema = self.schema
        optional = [(batch.profile, schema.profile), (batch.context, schema.context)]
        more = [(codes, fields) for codes, fields in optional if fields]
        if batch.negatives is not None:
            more.append((batch.negatives, schema.shared))
        history, candidate, sequences, others = self._look_up(batch, more)
        if batch.negatives is not None:
            batch.negative_vectors = others.pop()
        return Embedded(history, candidate, sequences, others)

    def features_of(self, embedded: Embedded, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the result of `features` for embeddings that have been looked up, by this model or by one of the same schema."""
        interest = self.represent(embedded.history, embedded.candidate, batch)
        further = self._further_interests(embedded.sequences, embedded.candidate, batch)
        vectors = [interest.vector, embedded.candidate, *embedded.others, *(each.vector for each in further)]
        return torch.cat(vectors, dim=-1), interest.auxiliary_loss

    def _further_interests(
        self, sequences: Sequence[Tensor], candidate: Tensor, batch: Batch
    ) -> list["Interest"]:
        """Represent the further sequences from what `_look_up` has found."""
        return [
            model.represent(history, candidate, batch.sequences[name])
            for (name, model), history in zip(self.sequence_models.items(), sequences, strict=True)
        ]

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Look up what `represent` takes: the behaviours, or pooled histories, and the candidates ``(B, item_width)``."""
        history, candidate, *_ = self._look_up(batch, [])
        return history, candidate

    def _look_up(
        self, batch: Batch, more: Sequence[tuple[Mapping[str, Tensor], Sequence[Field]]]
    ) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Look up behaviours (see `Embedded`), candidates, the behaviours of each further sequence, and more groups."""
        parts = [
            (self, batch),
            *((model, batch.sequences[name]) for name, model in self.sequence_models.items()),
        ]
        groups = [group for model, of in parts for group in model._groups_of_behaviors(of, self.embeddings)]
        found = iter(
            self.embeddings.lookup_groups(
                (batch.candidate, self.schema.item), *groups, *more, value_sets=batch.value_sets
            )
        )
        candidate = next(found)
        history, *sequences = [model._vectors_of_behaviors(found, of, self.embeddings) for model, of in parts]
        return history, candidate, sequences, list(found)

    def _groups_of_behaviors(
        self, batch: Batch, embeddings: Embeddings
    ) -> list[tuple[Mapping[str, Tensor], Sequence[Field]]]:
        """Return the groups of codes to look up: shared fields, and own fields that are concatenated.

        Args:
            batch: the batch of the behaviours.
            embeddings: the tables; the model of a further sequence has none of its own.
        """
        appended = self.behavior_fields[len(self.schema.shared) :]
        return [(batch.history, fields) for fields in (self.schema.shared, appended) if fields]

    def _vectors_of_behaviors(self, found: Iterator[Tensor], batch: Batch, embeddings: Embeddings) -> Tensor:
        """Return what `represent` takes, ``(N, behavior_width)`` here, from the embeddings of `_groups_of_behaviors`."""
        shared, appended = self._parts_of_behaviors(found, batch)
        return shared if self.own_fields is None else self.own_fields(shared, appended, batch)

    def _parts_of_behaviors(self, found: Iterator[Tensor], batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the embeddings of the shared fields, and of the own fields that are concatenated."""
        batch.shared_vectors = next(found)
        has_appended = len(self.behavior_fields) > len(self.schema.shared)
        return batch.shared_vectors, next(found) if has_appended else None

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

    def _representing(self, config: Any, schema: FeatureSchema) -> EmbeddingMLP:
        return BaseModel(config, schema)  # without the additional parts of its subclasses

    def _groups_of_behaviors(
        self, batch: Batch, embeddings: Embeddings
    ) -> list[tuple[Mapping[str, Tensor], Sequence[Field]]]:
        if self._tables_to_sum(embeddings):
            return [(batch.history, self.schema.shared)]
        return super()._groups_of_behaviors(batch, embeddings)

    def _vectors_of_behaviors(self, found: Iterator[Tensor], batch: Batch, embeddings: Embeddings) -> Tensor:
        """Return the pooled behaviours of each history, ``(H, behavior_width)``."""
        if self.own_fields is None:
            shared, _ = self._parts_of_behaviors(found, batch)
            return pool(shared, batch.histories, self.pooling)
        tables = self._tables_to_sum(embeddings)
        if tables:
            shared, appended = next(found), None
            batch.shared_vectors = shared
        else:
            shared, appended = self._parts_of_behaviors(found, batch)
        return self.own_fields.pooled(shared, appended, batch, self.pooling, embeddings=tables)

    def _tables_to_sum(self, embeddings: Embeddings) -> list[Tensor]:
        """Return the embeddings of the own fields if all of them also scale: their sums need no row per behaviour.

        Nothing if the tables have reduced precision, are sharded, or have different widths.
        """
        appended = [field.name for field in self.behavior_fields[len(self.schema.shared) :]]
        if self.own_fields is None or not appended or appended != list(self.own_fields.scales):
            return []
        contents = [embeddings.table(name).content for name in appended]
        tables = [content for content in contents if isinstance(content, Tensor)]
        have_one_width = len({table.shape[1] for table in tables}) == 1
        return tables if have_one_width and len(tables) == len(contents) else []

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        """Represent the pooled histories ``(H, behavior_width)``, the same for every candidate."""
        return Interest(batch.per_sample(history))
