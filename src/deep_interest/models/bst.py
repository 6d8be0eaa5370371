"""BST: a transformer over behaviours and candidate (Chen et al. 2019)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.attention import SelfAttention
from deep_interest.models.base import EmbeddingMLP, Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.bst import BSTConfig
from deep_interest.models.layers import LayerNorm
from deep_interest.models.shared_fields import SameFields
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.host_copies import copy_to_device
from deep_interest.ops.segments import expand


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward net, each with dropout, a residual connection and layer normalisation.

    Args:
        width: width of input and output.
        heads: number of heads of the self-attention.
        dropout: dropout rate.
    """

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.LeakyReLU(), nn.Linear(4 * width, width)
        )
        self.first_norm, self.second_norm = LayerNorm(width), LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor, sequences: Jagged) -> Tensor:
        """Shape: ``values (N, width)`` -> ``(N, width)``."""
        return self._after(values, self.attention(values, sequences))

    def last(self, values: Tensor, sequences: Jagged) -> Tensor:
        """Apply ``forward`` and keep the last position of each sequence: ``-> (B, width)``; sequences must not be empty."""
        return self._after(values[sequences.offsets[1:] - 1], self.attention.last(values, sequences))

    def _after(self, values: Tensor, attended: Tensor) -> Tensor:
        values = self.first_norm(values + self.dropout(attended))
        return self.second_norm(values + self.dropout(self.feed_forward(values)))


class BST(EmbeddingMLP):
    """The user vector is the output of a transformer over the newest behaviours followed by the candidate.

    The position is an additional field of each item (the paper's bottom layer). With ``output: all`` the outputs are
    concatenated, first that of the candidate, then from the newest to the oldest behaviour, padded with zeros.
    """

    Config = BSTConfig

    def __init__(self, config: BSTConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema) + config.embedding_dim
        self.length, self.output = config.sequence_length, config.output
        outputs = self.length if config.output == "all" else 1
        super().__init__(config, schema, interest_width=outputs * width)
        self.same_fields = SameFields(schema, config.embedding_dim, self.behavior_width, model="BST")
        self.positions = nn.Parameter(torch.empty(self.length, config.embedding_dim))
        nn.init.normal_(self.positions, std=config.embedding_std)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, config.heads, dropout=config.dropout) for _ in range(config.blocks)
        )

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        values, sequences = self._sequences(history, candidate, batch)
        *earlier, last = self.blocks
        for block in earlier:
            values = block(values, sequences)
        assert isinstance(last, TransformerBlock)
        if self.output == "candidate":
            return Interest(last.last(values, sequences))
        return Interest(self._concatenate(last(values, sequences), sequences))

    def _sequences(self, history: Tensor, candidate: Tensor, batch: Batch) -> tuple[Tensor, Jagged]:
        """Build the sequences of newest behaviours, candidate and their positions, ``(N', width)``."""
        newest = batch.newest(self.length - 1)
        sequences = Jagged(copy_to_device(newest.host_offsets + np.arange(batch.size + 1), history.device))
        behaviors = expand(history, newest)
        rows = torch.arange(len(behaviors), device=history.device) + newest.segments
        items = history.new_zeros(sequences.total, history.shape[1])
        items = items.index_copy(0, rows, behaviors)
        items = items.index_copy(0, sequences.offsets[1:] - 1, self.same_fields(candidate))
        return torch.cat([items, F.embedding(sequences.distances, self.positions)], dim=1), sequences

    def _concatenate(self, outputs: Tensor, sequences: Jagged) -> Tensor:
        """Shape: ``(N', width) -> (B, length * width)``."""
        rows = sequences.segments * self.length + sequences.distances
        padded = outputs.new_zeros(sequences.size * self.length, outputs.shape[1])
        return padded.index_copy(0, rows, outputs).view(sequences.size, -1)
