"""SIM: a search by category or by inner products, then attention to what it finds (Pi et al. 2020)."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.sim import SIMConfig
from deep_interest.models.layers import MLP
from deep_interest.models.long_history import LongHistoryModel, Part, PartVectors, SearchVectors
from deep_interest.models.target_attention import TargetAttention
from deep_interest.ops.jagged import Jagged, share_segments
from deep_interest.ops.jagged_products import segment_dot, weighted_sum
from deep_interest.ops.runtime.host_copies import copy_to_device
from deep_interest.ops.search import dot_scores, newest_matching, top_scores
from deep_interest.ops.segments import expand


class SIM(LongHistoryModel):
    """General search unit (eq. 1) and exact search unit, ``head_i = Σ_j softmax_j((W_b^i z_j) · (W_a^i e_a)) z_j`` (eq. 4, 5).

    ``z_j`` has the behaviour's own fields as well, such as the time since (``gap``).
    """

    Config = SIMConfig

    def __init__(self, config: SIMConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, model="SIM", long_width=config.heads * width)
        self.attention = TargetAttention(
            self.item_width, width, heads=config.heads, head_width=config.head_width, outputs=None
        )
        self.search_field = config.search_field
        self.soft = None
        if config.search == "soft":
            self.soft = SoftSearch(config, self.item_width, self.shared_width)
        else:
            _check_field(schema, config.search_field)

    def select(self, batch: Batch, vectors: SearchVectors) -> list[Part]:
        if self.soft is None:
            codes, targets = batch.history[self.search_field], batch.candidate[self.search_field]
            found = newest_matching(codes, targets, batch.pairs, self.search_length)
            return [Part(found.positions, found)]
        query = self.soft.queries(vectors.candidate())
        scores = dot_scores(vectors.behaviors(self.schema.shared), query, batch.pairs)
        found = top_scores(scores, batch.pairs, self.search_length)
        parts = [Part(found.positions, found)]
        return [*parts, sample_part(batch, self.soft.sample)] if self.training else parts

    def attend(self, parts: Sequence[PartVectors], candidate: Tensor, batch: Batch) -> Interest:
        found, *sampled = parts
        interest = self.attention(found.behaviors, self.attention.queries(candidate), found.segments)
        if self.soft is None or not sampled:
            return Interest(interest)
        return Interest(interest, self.soft(sampled[0].shared, candidate, sampled[0].segments, batch.labels))


class SoftSearch(nn.Module):
    """The soft search ranks by ``r_j = (W_b e_j) · (W_a e_a)``; a CTR model of its own over ``Σ_j r_j e_j`` trains it.

    Args:
        config: options.
        item_width: width of the candidate e_a.
        shared_width: width of a behaviour e_j, without own fields.
    """

    def __init__(self, config: SIMConfig, item_width: int, shared_width: int) -> None:
        super().__init__()
        self.candidate = nn.Linear(item_width, config.search_width, bias=False)
        self.behavior = nn.Linear(shared_width, config.search_width, bias=False)
        self.mlp = MLP(shared_width + item_width, config.hidden, activation=config.activation)
        self.shared_width, self.sample, self.weight = shared_width, config.search_sample, config.search_weight

    def queries(self, candidate: Tensor) -> Tensor:
        """Return ``W_bᵀ W_a e_a``, so that r_j is its product with e_j. Shape: ``(B, item_width) -> (B, shared_width)``."""
        return self.candidate(candidate) @ self.behavior.weight

    def forward(self, behaviors: Tensor, candidate: Tensor, segments: Jagged, labels: Tensor) -> Tensor:
        """Return the log loss of the search's own model, times its weight.

        Args:
            behaviors: ``(M, shared_width)`` sampled behaviours.
            candidate: ``(B, item_width)``.
            segments: the B segments of the behaviours.
            labels: ``(B,)``.
        """
        rows = expand(behaviors, segments)
        relevance = segment_dot(rows, self.queries(candidate), segments)
        user = weighted_sum(relevance, rows, segments)
        logits = self.mlp(torch.cat([user, candidate], dim=1)).squeeze(1)
        return self.weight * F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def sample_part(batch: Batch, count: int) -> Part:
    """Return ``count`` behaviours of each history, drawn with replacement in their order, or all if there are not more."""
    device = batch.offsets.device
    sizes = np.diff(batch.histories.host_offsets).clip(max=count)
    segments = Jagged(copy_to_device(np.append(0, sizes.cumsum()), device))
    history = segments.segments
    rank = torch.arange(segments.total, device=device) - segments.offsets[history]
    lengths = batch.histories.lengths[history]
    drawn = (torch.rand(segments.total, device=device, dtype=torch.float64) * lengths).long()
    positions = (batch.offsets[history] + torch.where(lengths > count, drawn, rank)).sort().values
    return Part(positions, segments if batch.owner is None else share_segments(segments, batch.owner))


def _check_field(schema: FeatureSchema, name: str) -> None:
    fields = [field for field in schema.shared if field.name == name and field.one_hot]
    if not fields:
        single = ", ".join(field.name for field in schema.shared if field.one_hot) or "none"
        raise InputError(
            f"search_field: SIM searches behaviours by {name!r}, which is not a field of behaviours and candidate with a single "
            f"value; choose one of {single}, add {name} to features.item, or use sim_soft"
        )
