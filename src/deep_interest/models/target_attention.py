"""Multi-head target attention: the candidate attends to behaviours by dot products."""

import torch
from torch import Tensor, nn

from deep_interest.ops.jagged import Jagged
from deep_interest.ops.target_attention import target_attention


class TargetAttention(nn.Module):
    """Multi-head attention with the candidate as the only query (Vaswani et al. 2017, with one query).

    ``head_h = Σ_j softmax_j((W_h^q q) · (W_h^k x_j) / √d) W_h^v x_j``, ``out = W^o [head_1; …]``. Keys and values are not formed:
    ``(W^q q) · (W^k x) = (W^kᵀ W^q q) · x``, and W^v is applied to the weighted sum.

    Args:
        query: width of the query.
        width: width of a behaviour.
        heads: number of heads.
        head_width: width d of a head.
        outputs: width of the result; None to return the weighted sums of the behaviours themselves, head after head, without W^v
            and W^o (SIM).
    """

    def __init__(self, query: int, width: int, *, heads: int, head_width: int, outputs: int | None) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.query = nn.Linear(query, heads * head_width, bias=False)
        self.key = projections(heads, head_width, width)
        self.value = self.output = None
        if outputs is not None:
            self.value = projections(heads, head_width, width)
            self.output = nn.Linear(heads * head_width, outputs, bias=False)

    def queries(self, target: Tensor) -> Tensor:
        """Return ``W_h^kᵀ W_h^q q / √d``, by which behaviours are multiplied. Shape: ``(B, query) -> (B, heads, width)``."""
        projected = self.query(target).unflatten(1, (self.heads, -1))
        scale = projected.shape[2] ** -0.5
        return torch.einsum("bhd,hdw->bhw", projected * scale, self.key)

    def forward(self, behaviors: Tensor, queries: Tensor, segments: Jagged) -> Tensor:
        """Attend to the behaviours of each segment.

        Args:
            behaviors: ``(M, width)``.
            queries: ``(B, heads, width)``, the result of `queries`.
            segments: the B segments of the behaviours.

        Returns:
            ``(B, outputs)``, or ``(B, heads * width)`` without outputs; 0 for an empty segment.
        """
        pooled = target_attention(behaviors, queries, segments)
        if self.value is None or self.output is None:
            return pooled.flatten(1)
        return self.output(torch.einsum("bhw,hdw->bhd", pooled, self.value).flatten(1))


def projections(heads: int, head_width: int, width: int) -> nn.Parameter:
    """Return a projection ``(head_width, width)`` for each head."""
    weights = torch.empty(heads, head_width, width)
    for weight in weights:
        nn.init.xavier_uniform_(weight)
    return nn.Parameter(weights)
