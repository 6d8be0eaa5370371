"""BST: a transformer over the behaviours and the candidate (Chen et al. 2019)."""

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import SelfAttention
from deep_interest.models.base import EmbeddingMLP, Interest, SameFields
from deep_interest.models.batch import Batch
from deep_interest.models.config import DeepConfig
from deep_interest.models.layers import LayerNorm
from deep_interest.ops.host import sent
from deep_interest.ops.runs import Runs
from deep_interest.ops.views import view


class BSTConfig(DeepConfig):
    """Options of BST.

    Attributes:
        heads: of the self-attention; behaviours' width is a multiple of it.
        blocks: transformer layers (one in the paper).
        positions: distances to the candidate that are told apart.
    """

    heads: int = Field(2, ge=1)
    blocks: int = Field(1, ge=1)
    positions: int = Field(100, ge=1)


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward net, each with a residual and layer normalisation.

    Args:
        width: of input and output.
        heads: of the self-attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.LeakyReLU(), nn.Linear(4 * width, width)
        )
        self.first_norm, self.second_norm = LayerNorm(width), LayerNorm(width)

    def forward(self, values: Tensor, sequences: Runs) -> Tensor:
        """Shape: ``values (N, width)`` -> ``(N, width)``."""
        return self._after(values, self.attention(values, sequences))

    def last(self, values: Tensor, sequences: Runs) -> Tensor:
        """As ``forward``, at each sequence's last position alone: ``-> (B, width)``; none is empty."""
        return self._after(values[sequences.offsets[1:] - 1], self.attention.last(values, sequences))

    def _after(self, values: Tensor, attended: Tensor) -> Tensor:
        values = self.first_norm(values + attended)
        return self.second_norm(values + self.feed_forward(values))


class BST(EmbeddingMLP):
    """The candidate stands at the end of its user's behaviours; its own output is the user's vector.

    The paper concatenates the outputs of 20 fixed positions, which jagged histories do not have.
    """

    Config = BSTConfig

    def __init__(self, config: BSTConfig, schema: FeatureSchema) -> None:
        super().__init__(config, schema)
        self.same_fields = SameFields(schema, config.embedding_dim, model="BST")
        self.positions = nn.Parameter(torch.empty(1 + config.positions, self.behavior_width))
        nn.init.normal_(self.positions, std=config.embedding_std)
        self.blocks = nn.ModuleList(
            TransformerBlock(self.behavior_width, config.heads) for _ in range(config.blocks)
        )

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        farthest = len(self.positions) - 1
        pairs = batch.pairs
        behaviors = view(
            history + F.embedding((1 + batch.histories.distances).clamp(max=farthest), self.positions), pairs
        )
        target = self.same_fields(candidate) + self.positions[0]
        sequences = Runs(sent(pairs.on_host + np.arange(batch.size + 1), history.device))  # one more a sample
        behind = torch.arange(len(behaviors), device=history.device) + pairs.segments
        sequence = history.new_zeros(len(behaviors) + batch.size, self.behavior_width)
        sequence = sequence.index_copy(0, behind, behaviors)
        sequence = sequence.index_copy(0, sequences.offsets[1:] - 1, target)
        *earlier, last = self.blocks
        for block in earlier:
            sequence = block(sequence, sequences)
        return Interest(last.last(sequence, sequences))
