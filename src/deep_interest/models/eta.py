"""ETA: the behaviours whose SimHash is nearest to the candidate's, then target attention (Chen et al. 2021)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.eta import ETAConfig
from deep_interest.models.long_history import LongHistoryModel, Part, PartVectors, SearchVectors
from deep_interest.models.shared_fields import SameFields
from deep_interest.models.target_attention import TargetAttention
from deep_interest.ops.search import hamming_scores, sim_hash, top_scores


class ETA(LongHistoryModel):
    """The K behaviours whose fingerprints differ in the fewest bits, attended by the candidate.

    The fingerprint of a vector is the signs of its products with random planes, which are not trained. It is computed from the
    current embeddings, once per behaviour of a history.
    """

    Config = ETAConfig
    planes: Tensor

    def __init__(self, config: ETAConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, model="ETA", long_width=width)
        self.same_fields = SameFields(schema, config.embedding_dim, self.shared_width, model="ETA")
        self.attention = TargetAttention(
            self.item_width, width, heads=config.heads, head_width=config.head_width, outputs=width
        )
        self.register_buffer("planes", torch.randn(self.shared_width, config.hash_bits))

    def select(self, batch: Batch, vectors: SearchVectors) -> list[Part]:
        behaviors = sim_hash(vectors.behaviors(self.schema.shared), self.planes)
        target = self.same_fields(vectors.candidate())
        candidates = sim_hash([(target, torch.arange(len(target), device=target.device))], self.planes)
        scores = hamming_scores(behaviors, candidates, batch.pairs)
        found = top_scores(scores, batch.pairs, self.search_length)
        return [Part(found.positions, found)]

    def attend(self, parts: Sequence[PartVectors], candidate: Tensor, batch: Batch) -> Interest:
        found = parts[0]
        return Interest(self.attention(found.behaviors, self.attention.queries(candidate), found.segments))
