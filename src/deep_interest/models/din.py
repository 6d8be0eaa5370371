"""DIN: behaviours weighed by their relevance to the candidate (DIN §4.3)."""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import EmbeddingMLP
from deep_interest.models.batch import Batch
from deep_interest.models.config import DeepConfig
from deep_interest.models.layers import MLP, Activation, make_activation, segment_softmax, segment_sum


class DINConfig(DeepConfig):
    """Options of DIN.

    Attributes:
        normalize: ``none`` keeps the intensity of the interest, Σ w_j (the paper); ``softmax`` divides it away
            (the authors' code: softmax of the scores over √D).
        difference: the activation unit also sees ``e_j - v_A`` (the authors' code).
        attention_hidden: widths of the activation unit's hidden layers.
        attention_activation: of the activation unit.
    """

    normalize: Literal["none", "softmax"] = "none"
    difference: bool = False
    attention_hidden: tuple[int, ...] = Field((80, 40), min_length=1)
    attention_activation: Activation = "prelu"


class LocalActivationUnit(nn.Module):
    """``a(e_j, v_A)`` of DIN eq. 3: a feed-forward net over the behaviour, the candidate and their product.

    The first layer is factorised: ``W [e; v; e∘v; e-v] = (W1 + W4) e + (W2 - W4) v + W3 (e∘v)``, so the candidate's
    part is computed once per sample and nothing is concatenated.

    Args:
        dim: width of ``e_j`` and ``v_A``.
        hidden: widths of the hidden layers.
        activation: of the hidden layers.
        difference: add ``e_j - v_A`` to the input.
    """

    def __init__(self, dim: int, hidden: Sequence[int], *, activation: Activation, difference: bool) -> None:
        super().__init__()
        self.dim, self.difference = dim, difference
        self.first = nn.Linear((4 if difference else 3) * dim, hidden[0])
        self.activation = make_activation(activation, hidden[0])
        self.rest = MLP(hidden[0], hidden[1:], activation=activation)

    def forward(self, history: Tensor, candidate: Tensor, segments: Tensor) -> Tensor:
        """Shape: ``history (N, dim)``, ``candidate (B, dim)``, ``segments (N,)`` -> scores ``(N,)``."""
        behavior_weight, candidate_weight, product_weight, *difference_weight = self.first.weight.split(
            self.dim, dim=1
        )
        for weight in difference_weight:
            behavior_weight, candidate_weight = behavior_weight + weight, candidate_weight - weight
        per_sample = torch.addmm(self.first.bias, candidate, candidate_weight.t())  # (B, hidden)
        hidden = history @ behavior_weight.t() + per_sample.index_select(0, segments)  # (N, hidden)
        hidden = torch.addmm(hidden, history * candidate.index_select(0, segments), product_weight.t())
        return self.rest(self.activation(hidden)).squeeze(-1)


class DIN(EmbeddingMLP):
    """The user's vector varies with the candidate: ``v_U(A) = Σ_j a(e_j, v_A) e_j`` (DIN eq. 3)."""

    Config = DINConfig

    def __init__(self, config: DINConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.normalize = config.normalize
        names = [field.name for field in schema.item]
        self.matching = [names.index(field.name) for field in schema.behavior if field.name in names]
        if len(self.matching) != len(schema.behavior):
            raise InputError(
                f"features.behavior: DIN compares a behaviour's fields with the candidate's; {names} do not hold them all"
            )
        self.embedding_dim = config.embedding_dim
        self.attention = LocalActivationUnit(
            self.behavior_width, config.attention_hidden,
            activation=config.attention_activation, difference=config.difference,
        )  # fmt: skip

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Tensor:
        scores = self.attention(history, self._same_fields(candidate), batch.segments)  # (N,)
        if self.normalize == "softmax":
            scores = segment_softmax(scores / self.behavior_width**0.5, batch.segments, batch.size)
        return segment_sum(scores.unsqueeze(-1) * history, batch.segments, batch.size)

    def _same_fields(self, candidate: Tensor) -> Tensor:
        """The candidate's vector over the fields that a behaviour has, in the behaviour's order."""
        if self.matching == list(range(candidate.shape[1] // self.embedding_dim)):
            return candidate
        fields = candidate.split(self.embedding_dim, dim=1)
        return torch.cat([fields[index] for index in self.matching], dim=1)
