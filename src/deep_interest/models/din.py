"""DIN: behaviours are weighted by their relevance to the candidate (DIN §4.3)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import LocalActivationUnit
from deep_interest.models.base import EmbeddingMLP, Interest
from deep_interest.models.batch import Batch
from deep_interest.models.configs.din import DINConfig
from deep_interest.models.shared_fields import SameFields
from deep_interest.ops.attention_inference import RepeatedColumns
from deep_interest.ops.segments import segment_softmax


class DIN(EmbeddingMLP):
    """The user vector depends on the candidate: ``v_U(A) = Σ_j a(e_j, v_A) e_j`` (DIN eq. 3)."""

    Config = DINConfig

    def __init__(self, config: DINConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.normalize = config.normalize
        self.same_fields = SameFields(schema, config.embedding_dim, self.behavior_width, model="DIN")
        self.attention = LocalActivationUnit(
            self.behavior_width, config.attention_hidden,
            activation=config.attention_activation, difference=config.difference,
        )  # fmt: skip
        self.positions = None
        if config.positions:
            self.positions = nn.Parameter(torch.empty(1 + config.positions, self.behavior_width))
            nn.init.normal_(self.positions, std=config.embedding_std)

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        history, target = self._compared(history, candidate, batch)
        repeated = [] if torch.is_grad_enabled() else self._repeated_columns(batch)
        return Interest(
            self.attention.pool(history, target, batch.pairs, softmax_scale=self._scale, repeated=repeated)
        )

    def _repeated_columns(self, batch: Batch) -> list[RepeatedColumns]:
        """Return the embeddings of the fields that many behaviours have in common, such as the category, as columns of a behaviour."""
        if self.own_fields is not None or self.positions is not None or batch.owner is None:
            return []
        width = self.embedding_dim
        return [
            RepeatedColumns(index * width, (index + 1) * width, batch.history[field.name])
            for index, field in enumerate(self.schema.shared)
            if field.name != ITEM_ID
        ]

    def attention_weights(self, batch: Batch) -> Tensor:
        """Return the weight of each behaviour of each pair, ``(P,)``; with softmax the weights of a pair sum to 1."""
        history, target = self._compared(*self.embed(batch), batch)
        scores = self.attention(history, target, batch.pairs)
        return scores if self._scale is None else segment_softmax(scores * self._scale, batch.pairs)

    @property
    def _scale(self) -> float | None:
        return self.behavior_width**-0.5 if self.normalize == "softmax" else None

    def _compared(self, history: Tensor, candidate: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return behaviours and candidate as the activation unit compares them."""
        target = self.same_fields(candidate)
        if self.positions is not None:
            farthest = len(self.positions) - 1
            history = history + F.embedding(
                (1 + batch.histories.distances).clamp(max=farthest), self.positions
            )
            target = target + self.positions[0]
        return history, target
