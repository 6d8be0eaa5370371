"""DeepFM: a factorisation machine next to the MLP, over the same embeddings (Guo et al. 2017; DIN §6.3)."""

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import BaseModel
from deep_interest.models.batch import Batch, ModelOutput
from deep_interest.models.configs.deepfm import DeepFMConfig
from deep_interest.models.configs.lr import LRConfig
from deep_interest.models.fm import pair_products
from deep_interest.models.lr import LR


class DeepFM(BaseModel):
    """The logit of BaseModel plus that of an FM: linear weights and the inner products of all pairs of field vectors."""

    Config = DeepFMConfig

    def __init__(self, config: DeepFMConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.linear = LR(LRConfig(), schema)

    def forward(self, batch: Batch) -> ModelOutput:
        features, _ = self.features(batch)
        fields = features.unflatten(1, (-1, self.embedding_dim))  # (B, F, D)
        added = pair_products(fields), self.linear(batch).logits
        return ModelOutput(self.logits(features, batch, *added))
