"""User only: BaseModel without the candidate and the context; what the users alone tell of clicks."""

import torch
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import BaseModel, BaseModelConfig
from deep_interest.models.batch import Batch


class UserOnly(BaseModel):
    """Profile and pooled behaviours into the MLP.

    It cannot rank one user's candidates: its GAUC is about 0.5 and its AUC is what telling users apart is worth.
    """

    def __init__(self, config: BaseModelConfig, schema: FeatureSchema) -> None:
        candidate = len(schema.item) * config.embedding_dim
        super().__init__(config, schema.model_copy(update={"context": ()}), more_inputs=-candidate)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The MLP's input ``(B, width)``: interest and profile."""
        whole, auxiliary_loss = super().features(batch)
        interest, _, profile = whole.tensor_split(
            [self.behavior_width, self.behavior_width + self.item_width], dim=1
        )
        return torch.cat([interest, profile], dim=1), auxiliary_loss
