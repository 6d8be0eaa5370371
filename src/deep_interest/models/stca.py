"""STCA: the candidate attends to the whole history in several layers (Guan et al. 2025)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import EmbeddingMLP, Interest, behavior_width
from deep_interest.models.batch import Batch
from deep_interest.models.configs.stca import STCAConfig
from deep_interest.models.layers import LayerNorm
from deep_interest.models.target_attention import TargetAttention
from deep_interest.ops.jagged import Jagged


class SwiGLU(nn.Module):
    """``LayerNorm(W3 (silu(W1 x) ∘ W2 x))`` (Shazeer 2020), without biases.

    Args:
        inputs, hidden, outputs: widths.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs, 2 * hidden, bias=False)
        self.output, self.norm = nn.Linear(hidden, outputs, bias=False), LayerNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: ``(n, inputs) -> (n, outputs)``."""
        gate, value = self.gates(x).chunk(2, dim=1)
        return self.norm(self.output(F.silu(gate) * value))


class HistoryAttention(nn.Module):
    """A layer: the query attends to the behaviours, each after a feed-forward net.

    Args:
        width: width of a behaviour and of the query.
        config: options.
    """

    def __init__(self, width: int, config: STCAConfig) -> None:
        super().__init__()
        self.feed = SwiGLU(width, config.expansion * width, width)
        self.attention = TargetAttention(
            width, width, heads=config.heads, head_width=config.head_width, outputs=width
        )

    def forward(self, history: Tensor, query: Tensor, pairs: Jagged) -> Tensor:
        """Shape: ``history (N, width)``, ``query (B, width)``, B segments -> ``(B, width)``."""
        return self.attention(self.feed(history), self.attention.queries(query), pairs)


class STCA(EmbeddingMLP):
    """Layers of target attention; a layer's query is a projection of the candidate and the results of all layers before.

    ``q_1 = FFN(v_A)``, ``o_i = attention(q_i, FFN_i(e_1), …, FFN_i(e_T))``, ``q_{i+1} = W_i [v_A; o_1; …; o_i]``. The feed-forward
    nets depend on the history alone and are applied once per history; no behaviour attends to another, so that the cost is linear
    in the length of the history. The results of all layers are inputs of the MLP.
    """

    Config = STCAConfig

    def __init__(self, config: STCAConfig, schema: FeatureSchema) -> None:
        width = behavior_width(config, schema)
        super().__init__(config, schema, interest_width=config.layers * width)
        self.query = SwiGLU(self.item_width, config.expansion * width, width)
        self.fused = nn.ModuleList(
            nn.Linear(self.item_width + i * width, width, bias=False) for i in range(1, config.layers)
        )
        self.layers = nn.ModuleList(HistoryAttention(width, config) for _ in range(config.layers))

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        query = self.query(candidate)
        outputs: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            if i:
                query = self.fused[i - 1](torch.cat([candidate, *outputs], dim=1))
            outputs.append(layer(history, query, batch.pairs))
        return Interest(torch.cat(outputs, dim=1))
