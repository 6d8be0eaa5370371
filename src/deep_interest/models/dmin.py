"""DMIN: multi-head self-attention extracts several interests, the candidate attends to each (Xiao et al. 2020)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import AttentionHeads, SelfAttention
from deep_interest.models.auxiliary import AuxiliaryLoss
from deep_interest.models.base import EmbeddingMLP, Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.dmin import DMINConfig
from deep_interest.models.embeddings import pool
from deep_interest.models.layers import MLP, LayerNorm
from deep_interest.models.shared_fields import SameFields
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.jagged_products import weighted_sum
from deep_interest.ops.segments import expand, segment_repeat, segment_softmax


class FeedForward(nn.Module):
    """Feed-forward net with a residual connection: ``x + W2 relu(W1 x + b1) + b2``; the hidden layer has twice the width.

    Shape: ``(N, width) -> (N, width)``.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = MLP(width, (2 * width,), outputs=width, activation="relu")

    def forward(self, x: Tensor) -> Tensor:
        return x + self.net(x)


class PositionalUnit(nn.Module):
    """DIN's activation unit ``a(I_j, q_j)`` with a position-aware query ``q_j = W [v_A; p_j] + b``.

    The input is ``[q_j; I_j; q_j - I_j; q_j ∘ I_j]``.
    """

    def __init__(self, width: int, config: DMINConfig) -> None:
        super().__init__()
        self.query = nn.Linear(width + config.position_dim, width)
        self.net = MLP(4 * width, config.attention_hidden, activation=config.attention_activation)

    def forward(self, outputs: Tensor, candidate: Tensor, positions: Tensor, pairs: Jagged) -> Tensor:
        """Shape: ``outputs (N, width)``, ``candidate (B, width)``, ``positions (N, position_dim)`` -> scores ``(P,)``."""
        width = candidate.shape[1]
        of_candidate, of_position = self.query.weight.split([width, positions.shape[1]], dim=1)
        queries = segment_repeat(F.linear(candidate, of_candidate, self.query.bias), pairs)
        queries = queries + expand(positions @ of_position.t(), pairs)
        rows = expand(outputs, pairs)
        return self.net(torch.cat([queries, rows, queries - rows, queries * rows], dim=1)).squeeze(-1)


class InterestHead(nn.Module):
    """One interest: the output of a head is projected to the width of a behaviour, then the candidate attends to it.

    Args:
        inputs: width of the head.
        width: width of a behaviour.
        config: options.
    """

    def __init__(self, inputs: int, width: int, config: DMINConfig) -> None:
        super().__init__()
        self.back, self.norm, self.feed = nn.Linear(inputs, width), LayerNorm(width), FeedForward(width)
        self.unit = PositionalUnit(width, config)

    def forward(
        self, result: Tensor, refined: Tensor, candidate: Tensor, positions: Tensor, pairs: Jagged
    ) -> Tensor:
        """Shape: ``result (N, inputs)``, ``refined (N, width)``, ``candidate (B, width)`` -> ``(B, width)``."""
        outputs = self.feed(self.norm(refined + self.back(result)))  # (N, width)
        weights = segment_softmax(self.unit(outputs, candidate, positions, pairs), pairs)
        return weighted_sum(weights, expand(outputs, pairs), pairs)


class DMIN(EmbeddingMLP):
    """A behaviour refiner (causal self-attention with an auxiliary loss), followed by one interest per head.

    The sum of the behaviours and its product with the candidate are inputs of the MLP as well, as in the authors' code.
    """

    Config = DMINConfig

    def __init__(self, config: DMINConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, interest_width=(config.heads + 2) * width)
        self.same_fields = SameFields(schema, config.embedding_dim, width, model="DMIN")
        self.refiner = SelfAttention(width, config.heads, causal=True)
        self.refiner_norm, self.refiner_feed = LayerNorm(width), FeedForward(width)
        self.extractor = AttentionHeads(width, config.heads, causal=True)
        self.interests = nn.ModuleList(
            InterestHead(self.extractor.head_width, width, config) for _ in range(config.heads)
        )
        self.positions = nn.Parameter(torch.empty(config.positions, config.position_dim))
        nn.init.normal_(self.positions, std=config.embedding_std)
        self.uses_negatives = config.aux_weight > 0
        if self.uses_negatives:
            self.auxiliary = AuxiliaryLoss(self.shared_width, config)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        refined = self.refiner_feed(self.refiner_norm(history + self.refiner(history, batch.histories)))
        target = self.same_fields(candidate)
        positions = F.embedding(batch.histories.distances.clamp(max=len(self.positions) - 1), self.positions)
        results = self.extractor(refined, batch.histories).chunk(len(self.interests), dim=1)
        interests = [
            head(result, refined, target, positions, batch.pairs)
            for head, result in zip(self.interests, results, strict=True)
        ]
        total = batch.per_sample(pool(history, batch.histories, "sum"))
        vector = torch.cat([*interests, total, target * total], dim=1)
        return Interest(vector, self._auxiliary_loss(refined, batch))

    def _auxiliary_loss(self, refined: Tensor, batch: Batch) -> Tensor | None:
        if batch.negative_vectors is None or not self.uses_negatives:
            return None
        assert batch.shared_vectors is not None
        states = (
            refined if refined.shape[1] == self.shared_width else refined[:, : self.shared_width].contiguous()
        )
        return self.auxiliary(states, batch.shared_vectors, batch.negative_vectors, batch)
