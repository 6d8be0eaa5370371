"""User only: BaseModel without candidate and context, to measure how well users alone predict clicks."""

import torch
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import BaseModel
from deep_interest.models.batch import Batch
from deep_interest.models.configs.user_only import UserOnlyConfig


class UserOnly(BaseModel):
    """An MLP over profile and pooled behaviours.

    It cannot rank the candidates of a user: its GAUC is about 0.5, and its AUC measures how well users can be separated.
    """

    Config = UserOnlyConfig

    def __init__(self, config: UserOnlyConfig, schema: FeatureSchema) -> None:
        config = config.without_additions()
        candidate = len(schema.item) * config.embedding_dim
        super().__init__(config, schema.model_copy(update={"context": ()}), more_inputs=-candidate)

    def features(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the input of the MLP ``(B, width)``, interest and profile, and the auxiliary loss."""
        features, auxiliary_loss = super().features(batch)
        interest, _, profile = features.tensor_split(
            [self.behavior_width, self.behavior_width + self.item_width], dim=1
        )
        return torch.cat([interest, profile], dim=1), auxiliary_loss
