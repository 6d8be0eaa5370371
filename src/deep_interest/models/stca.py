"""STCA: the candidate attends to the whole history in several layers (Guan et al. 2025)."""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import EmbeddingMLP, Interest
from deep_interest.models.batch import Batch
from deep_interest.models.config import DeepConfig
from deep_interest.models.layers import LayerNorm
from deep_interest.models.long_history import width_of
from deep_interest.models.target_attention import TargetAttention


class STCAConfig(DeepConfig):
    """Options of STCA.

    Attributes:
        layers: number of layers of attention.
        heads, head_width: number of heads of each layer, and the width of each.
        expansion: width of the hidden layer of a feed-forward net, as a multiple of a behaviour's width.
    """

    layers: int = Field(2, ge=1)
    heads: int = Field(4, ge=1)
    head_width: int = Field(16, ge=1)
    expansion: int = Field(1, ge=1)


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


class STCA(EmbeddingMLP):
    """Layers of target attention; a layer's query is a projection of the candidate and the results of all layers before.

    ``q_1 = FFN(v_A)``, ``o_i = attention(q_i, FFN_i(e_1), …, FFN_i(e_T))``, ``q_{i+1} = W_i [v_A; o_1; …; o_i]``. The feed-forward
    nets depend on the history alone and are applied once per history; no behaviour attends to another, so that the cost is linear
    in the length of the history. The results of all layers are inputs of the MLP.
    """

    Config = STCAConfig

    def __init__(self, config: STCAConfig, schema: FeatureSchema) -> None:
        width = width_of(config, schema)
        super().__init__(config, schema, interest_width=config.layers * width)
        hidden = config.expansion * width
        self.query = SwiGLU(self.item_width, hidden, width)
        self.fused = nn.ModuleList(
            nn.Linear(self.item_width + i * width, width, bias=False) for i in range(1, config.layers)
        )
        self.feed = nn.ModuleList(SwiGLU(width, hidden, width) for _ in range(config.layers))
        self.attention = nn.ModuleList(
            TargetAttention(width, width, heads=config.heads, head_width=config.head_width, outputs=width)
            for _ in range(config.layers)
        )

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        outputs: list[Tensor] = []
        for i, (feed, attention) in enumerate(zip(self.feed, self.attention, strict=True)):
            query = self.fused[i - 1](torch.cat([candidate, *outputs], dim=1)) if i else self.query(candidate)
            outputs.append(attention(feed(history), attention.queries(query), batch.pairs))
        return Interest(torch.cat(outputs, dim=1))
