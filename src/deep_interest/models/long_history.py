"""Models of long histories: a search selects behaviours for each candidate, and only those are looked up."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deep_interest.logs import schema as logs
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import LocalActivationUnit
from deep_interest.models.base import EmbeddingMLP, Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.long_history import LongHistoryConfig, ShortConfig
from deep_interest.models.embeddings import Table
from deep_interest.models.shared_fields import SameFields
from deep_interest.models.target_attention import TargetAttention
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.jagged import Jagged, SharedSegments, share_segments
from deep_interest.ops.runtime.host_copies import copy_to_device
from deep_interest.ops.search import FieldRows


class ShortInterest(nn.Module):
    """The newest behaviours, attended by the candidate.

    Args:
        config: options.
        schema: feature groups.
        width: width of a behaviour.
        model: name of the model, for error messages.
    """

    def __init__(self, config: ShortConfig, schema: FeatureSchema, width: int, *, model: str) -> None:
        super().__init__()
        self.attention: LocalActivationUnit | TargetAttention
        if config.short_attention == "din":
            self.same_fields = SameFields(schema, config.embedding_dim, width, model=model)
            self.attention = LocalActivationUnit(
                width, config.attention_hidden, activation=config.attention_activation, difference=False
            )
        else:
            self.attention = TargetAttention(
                len(schema.item) * config.embedding_dim, width, heads=config.heads, head_width=config.head_width,
                outputs=width,
            )  # fmt: skip

    def forward(self, behaviors: Tensor, candidate: Tensor, segments: Jagged) -> Tensor:
        """Shape: ``behaviors (M, width)``, ``candidate (B, item_width)``, B segments -> ``(B, width)``."""
        if isinstance(self.attention, LocalActivationUnit):
            return self.attention.pool(behaviors, self.same_fields(candidate), segments)
        return self.attention(behaviors, self.attention.queries(candidate), segments)


class Part(NamedTuple):
    """Some behaviours of a batch, as segments of the samples.

    Attributes:
        positions: ``(R,)`` int64 indices of the behaviours.
        segments: the B segments of the R behaviours.
    """

    positions: Tensor
    segments: Jagged


class PartVectors(NamedTuple):
    """Vectors of the R behaviours of a part.

    Attributes:
        behaviors: ``(R, behavior_width)``.
        shared: ``(R, shared_width)`` their fields that the candidate also has.
        segments: the B segments of the behaviours.
    """

    behaviors: Tensor
    shared: Tensor
    segments: Jagged


class SearchVectors(NamedTuple):
    """What a search can compare; nothing is looked up before it is called.

    Attributes:
        candidate: returns the candidates ``(B, item_width)``.
        behaviors: returns tables and codes of some fields of the behaviours: the shared ones, or all.
    """

    candidate: Callable[[], Tensor]
    behaviors: Callable[[Sequence[logs.Field]], FieldRows]


class LongHistoryModel(EmbeddingMLP):
    """A model that looks up the behaviours that it selects, and no others.

    A subclass selects behaviours (`select`) and represents them (`attend`). The newest behaviours are represented by
    `ShortInterest` and concatenated.

    Args:
        config: options.
        schema: feature groups.
        model: name of the model, for error messages.
        long_width: width of the representation of the selected behaviours.
    """

    def __init__(
        self, config: LongHistoryConfig, schema: FeatureSchema, *, model: str, long_width: int
    ) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, interest_width=long_width + (width if config.short_length else 0))
        self.search_length, self.short_length = config.search_length, config.short_length
        self.short = ShortInterest(config, schema, width, model=model) if config.short_length else None

    @abstractmethod
    def select(self, batch: Batch, vectors: SearchVectors) -> list[Part]:
        """Select the behaviours that the representation of the long history needs, without gradients.

        Args:
            batch: the batch.
            vectors: vectors of candidates and behaviours, for searches that compare them.
        """

    @abstractmethod
    def attend(self, parts: Sequence[PartVectors], candidate: Tensor, batch: Batch) -> Interest:
        """Represent the selected behaviours.

        Args:
            parts: vectors of the parts that `select` has returned.
            candidate: ``(B, item_width)``.
            batch: the batch.

        Returns:
            Vector ``(B, long_width)`` and auxiliary loss.
        """

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the input of the MLP ``(B, width)`` and the auxiliary loss, as `EmbeddingMLP.features`."""
        schema = self.schema
        vectors = SearchVectors(
            candidate=lambda: self.embeddings(batch.candidate, schema.item, batch.value_sets),
            behaviors=lambda fields: self.field_rows(batch, fields),
        )
        parts = self._parts(batch, vectors)
        positions = torch.cat([part.positions for part in parts])
        history = {
            field.name: batch.history[field.name].index_select(0, positions) for field in schema.behavior
        }
        optional = [(batch.profile, schema.profile), (batch.context, schema.context)]
        selected = replace(batch, history=history, negatives=None)
        behaviors, candidate, sequences, others = self._look_up(
            selected, [(codes, fields) for codes, fields in optional if fields]
        )
        assert selected.shared_vectors is not None
        sizes = [len(part.positions) for part in parts]
        rows = zip(behaviors.split(sizes), selected.shared_vectors.split(sizes), parts, strict=True)
        interest = self._interest(
            [PartVectors(own, shared, part.segments) for own, shared, part in rows], candidate, batch
        )
        further = self._further_interests(sequences, candidate, batch)
        features = [interest.vector, candidate, *others, *(each.vector for each in further)]
        losses = [each.auxiliary_loss for each in (interest, *further) if each.auxiliary_loss is not None]
        return torch.cat(features, dim=-1), sum(losses[1:], losses[0]) if losses else None

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        shared = batch.shared_vectors
        assert shared is not None
        every = torch.arange(len(history), device=history.device)

        def behaviors(fields: Sequence[logs.Field]) -> FieldRows:
            return [(shared if fields == self.schema.shared else history, every)]

        vectors = SearchVectors(candidate=lambda: candidate, behaviors=behaviors)
        parts = [
            PartVectors(history[positions], shared[positions], segments)
            for positions, segments in self._parts(batch, vectors)
        ]
        return self._interest(parts, candidate, batch)

    def field_rows(self, batch: Batch, fields: Sequence[logs.Field]) -> FieldRows:
        """Return the tables and codes of some fields of the behaviours, for a search."""
        if not all(field.one_hot for field in fields) or not self._in_memory(fields):
            vectors = self.embeddings(batch.history, fields, batch.value_sets)
            return [(vectors, torch.arange(len(vectors), device=vectors.device))]
        rows = []
        for field in fields:
            table = self.embeddings.tables[field.name]
            assert isinstance(table, Table)
            rows.append((table.weight, table.rows_of(batch.history[field.name])))
        return rows

    def _in_memory(self, fields: Sequence[logs.Field]) -> bool:
        """Whether a search can read the rows of all fields: those of a table of reduced precision, or of a source, it cannot."""
        tables = [self.embeddings.tables[field.name] for field in fields]
        return all(isinstance(table, Table) and isinstance(table.content, Tensor) for table in tables)

    def _parts(self, batch: Batch, vectors: SearchVectors) -> list[Part]:
        """Return the selected behaviours, then the newest ones."""
        batch.histories  # noqa: B018  # checks the lengths
        _check_codes(batch, self.schema.behavior)
        with torch.no_grad():
            parts = self.select(batch, vectors)
        return [*parts, newest_part(batch, self.short_length)] if self.short is not None else parts

    def _interest(self, parts: Sequence[PartVectors], candidate: Tensor, batch: Batch) -> Interest:
        if self.short is None:
            return self.attend(parts, candidate, batch)
        long = self.attend(parts[:-1], candidate, batch)
        short = self.short(parts[-1].behaviors, candidate, parts[-1].segments)
        return Interest(torch.cat([long.vector, short], dim=1), long.auxiliary_loss)


def newest_part(batch: Batch, count: int) -> Part:
    """Return the last ``count`` behaviours of each history, once per history."""
    lengths = np.diff(batch.histories.host_offsets).clip(max=count)
    device = batch.offsets.device
    offsets = copy_to_device(np.append(0, lengths.cumsum()), device)
    starts = copy_to_device(batch.histories.host_offsets[1:] - lengths, device)
    segments = Jagged(offsets)
    positions = SharedSegments(offsets, starts).positions
    return Part(positions, segments if batch.owner is None else share_segments(segments, batch.owner))


def _check_codes(batch: Batch, fields: Sequence[logs.Field]) -> None:
    """Check the codes of all behaviours, on the CPU: a search reads rows that a lookup does not check."""
    for field in fields:
        codes = batch.history[field.name]
        if codes.is_cpu:
            size = len(batch.value_sets[field.name].offsets) - 1 if field.pooling else field.codes
            check_codes(codes.numpy(), size, field.name)
