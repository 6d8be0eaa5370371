"""PNN: product layer between embedding and MLP (Qu et al. 2016; DIN §6.3)."""

import torch

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import BaseModel, behavior_fields
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.pnn import PNNConfig


class PNN(BaseModel):
    """IPNN: the inner products of all pairs of field vectors are additional inputs of the MLP.

    The fields are those of the pooled behaviours, of the candidate, of the profile and of the context.
    """

    Config = PNNConfig

    def __init__(self, config: PNNConfig, schema: FeatureSchema) -> None:
        sequences = [schema, *map(schema.of_sequence, schema.sequences)]
        fields = sum(len(behavior_fields(config, of)) for of in sequences)
        fields += len(schema.item) + len(schema.profile) + len(schema.context)
        super().__init__(config, schema, more_inputs=fields * (fields - 1) // 2)
        first, second = torch.triu_indices(fields, fields, offset=1)
        self.register_buffer("first", first, persistent=False)
        self.register_buffer("second", second, persistent=False)

    def forward(self, batch: Batch) -> ModelOutput:
        features, _ = self.features(batch)
        fields = features.unflatten(1, (-1, self.embedding_dim))  # (B, F, D)
        products = (fields @ fields.transpose(1, 2))[:, self.first, self.second]  # (B, F (F - 1) / 2)
        return ModelOutput(self.logits(torch.cat([features, products], dim=1), batch))
