"""Attention over jagged histories: DIN's activation unit, DIEN's bilinear attention, and self-attention."""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.models.config import Activation
from deep_interest.models.layers import MLP, PReLU, apply_stages, fuse_layers, make_activation
from deep_interest.models.length_groups import length_groups
from deep_interest.ops.attention import attention_pool, pair_mlp, pool_by_scores
from deep_interest.ops.attention_bfloat16 import attention_pool_bfloat16, can_use_bfloat16
from deep_interest.ops.attention_inference import RepeatedColumns
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.jagged_products import segment_dot, weighted_sum
from deep_interest.ops.limits import AttentionPrecision
from deep_interest.ops.mlp import Layers
from deep_interest.ops.segments import expand, segment_softmax
from deep_interest.ops.shared_attention import attention_weights


class LocalActivationUnit(nn.Module):
    """DIN's activation unit ``a(e_j, v_A)`` (eq. 3): an MLP over the behaviour, the candidate and their product.

    Args:
        dim: width of ``e_j`` and ``v_A``.
        hidden: widths of the hidden layers.
        activation: activation of the hidden layers.
        difference: whether ``e_j - v_A`` is an input as well.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`
    precision: AttentionPrecision = "float32"  # of the factors where no gradients are needed

    def __init__(self, dim: int, hidden: Sequence[int], *, activation: Activation, difference: bool) -> None:
        super().__init__()
        self.first = nn.Linear((4 if difference else 3) * dim, hidden[0])
        self.activation = make_activation(activation, hidden[0])
        self.rest = MLP(hidden[0], hidden[1:], activation=activation)

    @cached_property
    def _stages(self) -> tuple[Layers, list[Layers | nn.Module]]:
        """The fused layers that see the pairs, and the layers after them."""
        fused, *others = fuse_layers([self.first, self.activation, *self.rest.layers])
        assert isinstance(fused, Layers)
        return fused, others

    def forward(self, history: Tensor, candidate: Tensor, pairs: Jagged) -> Tensor:
        """Shape: ``history (N, dim)``, ``candidate (B, dim)``, P behaviours in the B pairs -> scores ``(P,)``."""
        fused, others = self._stages
        scores = pair_mlp(history, candidate, fused, pairs, accumulator=self.accumulator)
        return apply_stages(others, scores, self.accumulator).squeeze(-1)

    def pool(
        self,
        history: Tensor,
        candidate: Tensor,
        pairs: Jagged,
        *,
        softmax_scale: float | None = None,
        repeated: Sequence[RepeatedColumns] = (),
    ) -> Tensor:
        """Sum the behaviours weighted by their scores, or by the softmax of ``softmax_scale`` times the scores.

        ``repeated`` are columns that depend on a code alone; without gradients they save products.

        Shape: as in ``forward`` -> ``(B, dim)``.
        """
        fused, others = self._stages
        if self.precision == "bfloat16" and not torch.is_grad_enabled():
            return attention_pool_bfloat16(history, candidate, fused, pairs, softmax_scale=softmax_scale)
        if others:
            scores = self(history, candidate, pairs)
            return pool_by_scores(scores, history, pairs, softmax_scale=softmax_scale)
        return attention_pool(
            history,
            candidate,
            fused,
            pairs,
            softmax_scale=softmax_scale,
            accumulator=self.accumulator,
            repeated=repeated,
        )

    @property
    def can_use_bfloat16(self) -> bool:
        """Whether `precision` can be ``bfloat16``."""
        fused, others = self._stages
        return not others and can_use_bfloat16(fused)


class BilinearAttention(nn.Module):
    """``a_t = softmax_t(h_t W e_a)`` (DIEN eq. 9).

    Args:
        hidden: width of the states.
        candidate: width of the candidate.
    """

    def __init__(self, hidden: int, candidate: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden, candidate))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, states: Tensor, candidate: Tensor, pairs: Jagged) -> Tensor:
        """Shape: ``states (N, hidden)``, ``candidate (B, candidate)``, P behaviours in the B pairs -> ``(P,)``."""
        return attention_weights(states, candidate @ self.weight.t(), pairs)


class ActivationAttention(nn.Module):
    """DIN's activation unit in place of DIEN's eq. 9 (the authors' code); the candidate is first projected to the width of the states.

    Args:
        hidden: width of the states.
        candidate: width of the candidate.
    """

    def __init__(self, hidden: int, candidate: int) -> None:
        super().__init__()
        self.query = MLP(candidate, (), outputs=hidden)
        self.activation = PReLU(hidden)
        self.unit = LocalActivationUnit(hidden, (80, 40), activation="sigmoid", difference=True)

    def forward(self, states: Tensor, candidate: Tensor, pairs: Jagged) -> Tensor:
        """Shape: ``states (N, hidden)``, ``candidate (B, candidate)``, P behaviours in the B pairs -> ``(P,)``."""
        scores = self.unit(states, self.activation(self.query(candidate)), pairs)
        return segment_softmax(scores, pairs)


class AttentionHeads(nn.Module):
    """Multi-head self-attention within each history, before the output projection: the concatenated heads.

    Args:
        width: width of the input.
        heads: number of heads; the width of each is ``width / heads``, rounded up.
        causal: whether a position only attends to itself and to earlier positions.
    """

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.head_width, self.causal = heads, ceil(width / heads), causal
        self.outputs_width = heads * self.head_width
        self.inputs = nn.Linear(width, 3 * self.outputs_width, bias=False)  # query, key, value

    def forward(self, values: Tensor, histories: Jagged) -> Tensor:
        """Shape: ``values (N, width)`` -> ``(N, outputs_width)``."""
        projected = self.inputs(values)  # (N, 3 outputs_width)
        groups = list(length_groups(histories))
        if not groups:
            return projected[:, : self.outputs_width]  # all histories are empty
        gathered = projected.index_select(0, torch.cat([group.positions.flatten() for group in groups]))
        sizes = [group.real.numel() for group in groups]
        mixed, starts = [], torch.zeros_like(histories.lengths)  # first row of each history in `mixed`
        for part, group, before in zip(
            gathered.split(sizes), groups, accumulate(sizes[:-1], initial=0), strict=True
        ):
            mixed.append(self._mix(part.unflatten(0, group.real.shape), group.real))
            rows, steps = group.real.shape
            starts[group.samples] = before + steps * torch.arange(rows, device=starts.device)
        return expand(torch.cat(mixed), SharedSegments(histories.offsets, starts))

    def _mix(self, projected: Tensor, real: Tensor) -> Tensor:
        """Shape: ``projected (b, T, 3 outputs_width)``, ``real (b, T)`` -> ``(b * T, outputs_width)``."""
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (b, heads, T, head_width)
            for part in projected.chunk(3, dim=2)
        )
        mask = real[:, None, None, :]
        if self.causal:
            steps = real.shape[1]
            mask = mask & torch.ones(steps, steps, dtype=torch.bool, device=real.device).tril()
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return mixed.transpose(1, 2).reshape(real.numel(), -1)

    def last(self, values: Tensor, histories: Jagged) -> Tensor:
        """Apply ``forward`` and keep the last position of each history; histories must not be empty.

        Shape: ``values (N, width)`` -> ``(B, outputs_width)``.
        """
        scale = self.head_width**0.5
        query, key_value = self.inputs.weight.split([self.outputs_width, 2 * self.outputs_width])
        last = values[histories.offsets[1:] - 1]
        queries = (last @ query.t()).chunk(self.heads, dim=1)  # (B, head_width) each
        key, value = (half.chunk(self.heads, dim=1) for half in (values @ key_value.t()).chunk(2, dim=1))
        mixed = [
            weighted_sum(segment_softmax(segment_dot(k, a, histories) / scale, histories), v, histories)
            for a, k, v in zip(queries, key, value, strict=True)
        ]
        return torch.cat(mixed, dim=1)


class SelfAttention(nn.Module):
    """Multi-head self-attention within each history, with the output projection.

    Args:
        width, heads, causal: see `AttentionHeads`.
    """

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads = AttentionHeads(width, heads, causal=causal)
        self.outputs = nn.Linear(self.heads.outputs_width, width, bias=False)

    def forward(self, values: Tensor, histories: Jagged) -> Tensor:
        """Shape: ``values (N, width)`` -> ``(N, width)``."""
        return self.outputs(self.heads(values, histories))

    def last(self, values: Tensor, histories: Jagged) -> Tensor:
        """Apply ``forward`` and keep the last position of each history: ``-> (B, width)``; histories must not be empty."""
        return self.outputs(self.heads.last(values, histories))
