"""TWIN: the same target attention searches a long history and attends to what it finds (Chang et al. 2023)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.twin import TWINConfig
from deep_interest.models.long_history import LongHistoryModel, Part, PartVectors, SearchVectors
from deep_interest.models.target_attention import TargetAttention, projections
from deep_interest.ops.search import dot_scores, top_scores


class SplitAttention(TargetAttention):
    """Target attention with the score ``(W^q q) · (W^h x_j) / √d + Σ_c β_c (w_c · x_j,c)`` (eq. 5).

    ``x_j`` are the inherent fields of a behaviour, which the candidate also has, and ``x_j,c`` its own field c (a cross feature of user
    and item), which w_c compresses to a single number: a bias that does not depend on the candidate.

    Args:
        query, heads, head_width: see `TargetAttention`.
        shared: width of the inherent fields.
        own: number of own fields.
        dim: width of an own field.
    """

    def __init__(self, query: int, *, shared: int, own: int, dim: int, heads: int, head_width: int) -> None:
        width = shared + own * dim
        super().__init__(query, shared, heads=heads, head_width=head_width, outputs=width)
        self.value = projections(heads, head_width, width)
        self.compress = nn.Parameter(torch.empty(own, dim)) if own else None
        self.beta = nn.Parameter(torch.ones(heads, own)) if own else None
        if self.compress is not None:
            nn.init.normal_(self.compress, std=dim**-0.5)

    def queries(self, target: Tensor) -> Tensor:
        """Shape: ``(B, query) -> (B, heads, width)``."""
        inherent = super().queries(target)
        if self.compress is None or self.beta is None:
            return inherent
        own = (self.beta.unsqueeze(2) * self.compress).flatten(1)  # (heads, own * dim)
        return torch.cat([inherent, own.expand(target.shape[0], -1, -1)], dim=2)


class TWIN(LongHistoryModel):
    """The K behaviours with the highest attention scores, summed over the heads, attended with the same scores."""

    Config = TWINConfig

    def __init__(self, config: TWINConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, model="TWIN", long_width=width)
        self.attention = SplitAttention(
            self.item_width, shared=self.shared_width, own=len(schema.own),
            dim=config.embedding_dim, heads=config.heads, head_width=config.head_width,
        )  # fmt: skip

    def select(self, batch: Batch, vectors: SearchVectors) -> list[Part]:
        query = self.attention.queries(vectors.candidate()).sum(1)
        scores = dot_scores(vectors.behaviors(self.schema.behavior), query, batch.pairs)
        found = top_scores(scores, batch.pairs, self.search_length)
        return [Part(found.positions, found)]

    def attend(self, parts: Sequence[PartVectors], candidate: Tensor, batch: Batch) -> Interest:
        found = parts[0]
        return Interest(self.attention(found.behaviors, self.attention.queries(candidate), found.segments))
