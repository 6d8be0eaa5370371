"""SDIM: the behaviours that share a hash bucket with the candidate, in several rounds (Cao et al. 2022)."""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.base import EmbeddingMLP, Interest, behavior_width, field_widths
from deep_interest.models.batch import Batch
from deep_interest.models.configs.sdim import SDIMConfig
from deep_interest.models.long_history import Part, ShortInterest, newest_part
from deep_interest.models.shared_fields import SameFields
from deep_interest.ops.buckets import Hashing, bucket_sums, distinct
from deep_interest.ops.search import FieldRows, sim_hash


class SDIM(EmbeddingMLP):
    """``1/R Σ_r ℓ2(Σ_j [bucket_r(e_j) = bucket_r(v_A)] e_j)`` over R rounds of hashing (eq. 11, 12).

    A bucket is the signs of the products with τ random planes, so that a behaviour shares it with probability
    ``(1 - angle / π)^τ``: the expectation is an attention without parameters. A row of a table is looked up once, and
    multiplied with the planes once, however often it occurs in the batch; no vector of a behaviour is formed.
    """

    Config = SDIMConfig
    planes: Tensor

    def __init__(self, config: SDIMConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, interest_width=width * (2 if config.short_length else 1))
        self.same_fields = SameFields(schema, config.embedding_dim, self.shared_width, model="SDIM")
        self.hashing = Hashing(config.hash_rounds, config.bucket_bits)
        self.widths = field_widths(config, schema, schema.behavior)
        self.short_length = config.short_length
        self.short = ShortInterest(config, schema, width, model="SDIM") if config.short_length else None
        self.register_buffer(
            "planes", torch.randn(self.shared_width, config.hash_rounds * config.bucket_bits)
        )

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the input of the MLP ``(B, width)``, as `EmbeddingMLP.features`."""
        schema, newest = self.schema, newest_part(batch, self.short_length)
        fields = schema.behavior
        parts = [
            distinct(batch.history[field.name], _number_of_codes(field, batch), field.name)
            for field in fields
        ]
        optional = [(batch.profile, schema.profile), (batch.context, schema.context)]
        recent, candidate, sequences, others = self._look_up(
            replace(batch, history={field.name: batch.history[field.name][newest.positions] for field in fields}),
            [
                *[(codes, group) for codes, group in optional if group],
                *[({field.name: part.codes}, (field,)) for field, part in zip(fields, parts, strict=True)],
            ],
        )  # fmt: skip
        others, rows = others[: -len(fields)], others[-len(fields) :]
        inverses = [part.inverse for part in parts]
        interest = self._interest(list(zip(rows, inverses, strict=True)), recent, candidate, newest, batch)
        further = [each.vector for each in self._further_interests(sequences, candidate, batch)]
        return torch.cat([interest, candidate, *others, *further], dim=-1), None

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        newest = newest_part(batch, self.short_length)
        every = torch.arange(len(history), device=history.device)
        fields = [(values, every) for values in history.split(self.widths, dim=1)]
        return Interest(self._interest(fields, history[newest.positions], candidate, newest, batch))

    def _interest(
        self, fields: FieldRows, recent: Tensor, candidate: Tensor, newest: Part, batch: Batch
    ) -> Tensor:
        """Return the representation of a history ``(B, interest_width)``.

        Args:
            fields: rows ``(U, D)`` and index ``(N,)`` of each field of the behaviours, shared fields first.
            recent: ``(M, behavior_width)`` the newest behaviours.
            candidate: ``(B, item_width)``.
            newest: segments of the newest behaviours.
            batch: the batch.
        """
        hashes = self._hash(fields[: len(self.schema.shared)]), self._hash_candidates(candidate)
        sums = [bucket_sums(rows, index, hashes, batch.pairs, self.hashing) for rows, index in fields]
        long = F.normalize(torch.cat(sums, dim=2), dim=2).mean(1)
        if self.short is None:
            return long
        return torch.cat([long, self.short(recent, candidate, newest.segments)], dim=1)

    def _hash(self, fields: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        return sim_hash(fields, self.planes)

    def _hash_candidates(self, candidate: Tensor) -> Tensor:
        target = self.same_fields(candidate)
        return self._hash([(target, torch.arange(len(target), device=target.device))])


def _number_of_codes(field: Field, batch: Batch) -> int:
    """Return the number of codes that a field of a behaviour can have; of a multi-hot field, the number of its value sets."""
    return len(batch.value_sets[field.name].offsets) - 1 if field.pooling else field.codes
