"""DMIN: several interests by multi-head self-attention, each attended by the candidate (Xiao et al. 2020)."""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import AttentionHeads, LocalActivationUnit, SelfAttention
from deep_interest.models.auxiliary import AuxiliaryConfig, AuxiliaryLoss
from deep_interest.models.base import EmbeddingMLP, Interest, SameFields
from deep_interest.models.batch import Batch
from deep_interest.models.layers import Activation
from deep_interest.ops.products import weighted_sum
from deep_interest.ops.segments import segment_softmax
from deep_interest.ops.views import view


class DMINConfig(AuxiliaryConfig):
    """Options of DMIN.

    Attributes:
        heads: interests; behaviours' width is a multiple of it.
        positions: distances to the candidate that are told apart.
        attention_hidden, attention_activation: of the activation unit of each interest.
    """

    heads: int = Field(2, ge=1)
    aux_weight: float = Field(1.0, ge=0)
    positions: int = Field(100, ge=1)
    attention_hidden: tuple[int, ...] = Field((80, 40), min_length=1)
    attention_activation: Activation = "prelu"


class DMIN(EmbeddingMLP):
    """Behaviour refiner (causal self-attention, trained to tell the next behaviour), then one interest a head.

    A head's outputs are brought back to a behaviour's width and weighed by an activation unit of its own that also
    sees the distance to the candidate; the interests stand side by side.
    """

    Config = DMINConfig

    def __init__(self, config: DMINConfig, schema: FeatureSchema) -> None:
        width = len(schema.behavior) * config.embedding_dim
        super().__init__(config, schema, interest_width=config.heads * width)
        self.same_fields = SameFields(schema, config.embedding_dim, model="DMIN")
        self.refiner = SelfAttention(width, config.heads, causal=True)
        self.refiner_norm = nn.LayerNorm(width)
        self.extractor = AttentionHeads(width, config.heads)
        part = width // config.heads
        self.heads = nn.ModuleList(nn.Linear(part, width) for _ in range(config.heads))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(config.heads))
        self.units = nn.ModuleList(
            LocalActivationUnit(
                width, config.attention_hidden, activation=config.attention_activation, difference=True
            )
            for _ in range(config.heads)
        )
        self.positions = nn.Parameter(torch.empty(config.positions, width))
        nn.init.normal_(self.positions, std=config.embedding_std)
        self.draws_negatives = config.aux_weight > 0
        self.auxiliary = AuxiliaryLoss(width, config)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        refined = self.refiner_norm(history + self.refiner(history, batch.histories))
        target = self.same_fields(candidate)
        distance = F.embedding(batch.histories.distances.clamp(max=len(self.positions) - 1), self.positions)
        results = self.extractor(refined, batch.histories).chunk(len(self.heads), dim=1)
        interests, pairs = [], batch.pairs
        for result, head, norm, unit in zip(results, self.heads, self.norms, self.units, strict=True):
            outputs = norm(refined + head(result))  # (N, width)
            weights = segment_softmax(unit(outputs + distance, target, pairs), pairs)
            interests.append(weighted_sum(weights, view(outputs, pairs), pairs))
        return Interest(torch.cat(interests, dim=1), self._auxiliary_loss(refined, history, batch))

    def _auxiliary_loss(self, refined: Tensor, history: Tensor, batch: Batch) -> Tensor | None:
        if batch.drawn is None or not self.draws_negatives:
            return None
        return self.auxiliary(refined, history, batch.drawn, batch)
