"""Attention over the history of one user: activation unit, bilinear attention, target attention and self-attention."""

from functools import singledispatch

import torch
from torch import Tensor

from deep_interest.export.layers import activate, masked_softmax, mlp
from deep_interest.export.request import History
from deep_interest.models.attention import (
    ActivationAttention,
    AttentionHeads,
    BilinearAttention,
    LocalActivationUnit,
    SelfAttention,
)
from deep_interest.models.long_history import ShortInterest
from deep_interest.models.target_attention import TargetAttention


def unit_scores(unit: LocalActivationUnit, behaviors: Tensor, targets: Tensor) -> Tensor:
    """Score each behaviour for each candidate by DIN's activation unit (DIN eq. 3).

    The first layer sees ``[e; v; e ∘ v]``, and ``e - v`` if it was trained with it: what depends on one of both is
    computed once, and only ``e ∘ v`` is formed for each pair.

    Shape: ``behaviors (N, D)``, ``targets (C, D)`` -> ``(C, N)``.
    """
    of_behavior, of_target, of_product, *rest = unit.first.weight.split(behaviors.shape[1], dim=1)
    for difference in rest:
        of_behavior, of_target = of_behavior + difference, of_target - difference
    products = (targets.unsqueeze(1) * behaviors).flatten(0, 1) @ of_product.t()  # (C N, hidden)
    constant = (targets @ of_target.t() + unit.first.bias).unsqueeze(1) + behaviors @ of_behavior.t()
    hidden = activate(unit.activation, products + constant.flatten(0, 1))
    return mlp(unit.rest, hidden).view(targets.shape[0], behaviors.shape[0])


@singledispatch
def attention_weights(attention: torch.nn.Module, states: Tensor, candidates: Tensor, real: Tensor) -> Tensor:
    """Return DIEN's attention weights of the states for each candidate (DIEN eq. 9).

    Shape: ``states (N, H)``, ``candidates (C, item_width)``, ``real (N,)`` -> ``(C, N)``; 0 for padding.
    """
    raise TypeError(type(attention).__name__)


@attention_weights.register
def _(attention: BilinearAttention, states: Tensor, candidates: Tensor, real: Tensor) -> Tensor:
    return masked_softmax(candidates @ attention.weight.t() @ states.t(), real)


@attention_weights.register
def _(attention: ActivationAttention, states: Tensor, candidates: Tensor, real: Tensor) -> Tensor:
    targets = activate(attention.activation, mlp(attention.query, candidates))
    return masked_softmax(unit_scores(attention.unit, states, targets), real)


def target_attention(
    attention: TargetAttention, behaviors: Tensor, candidates: Tensor, mask: Tensor
) -> Tensor:
    """Attend to the behaviours by multi-head target attention.

    Args:
        attention: trained module.
        behaviors: ``(N, width)``.
        candidates: ``(C, query width)``.
        mask: float ``(N,)``, or ``(C, 1, N)`` where candidates attend to different behaviours; 0 for those to ignore.

    Returns:
        ``(C, outputs)``, or ``(C, heads * width)`` for attention without outputs.
    """
    queries = attention.queries(candidates)  # (C, heads, width)
    pooled = masked_softmax(queries @ behaviors.t(), mask) @ behaviors
    if attention.value is None or attention.output is None:
        return pooled.flatten(1)
    return attention.output(torch.einsum("bhw,hdw->bhd", pooled, attention.value).flatten(1))


def short_interest(short: ShortInterest, history: History, candidates: Tensor, length: int) -> Tensor:
    """Attend to the newest ``length`` behaviours. Shape: ``candidates (C, item_width)`` -> ``(C, width)``."""
    newest = history.newest(length)
    if isinstance(short.attention, LocalActivationUnit):
        scores = unit_scores(short.attention, newest.vectors, short.same_fields(candidates))
        return (scores * newest.real) @ newest.vectors
    return target_attention(short.attention, newest.vectors, candidates, newest.real)


def head_outputs(heads: AttentionHeads, values: Tensor, allowed: Tensor) -> Tensor:
    """Apply multi-head self-attention before the output projection.

    Args:
        heads: trained module.
        values: ``(…, N, width)``.
        allowed: bool, broadcast to ``(N, N)``; which positions (second) a position (first) attends to, at least one
            each.

    Returns:
        ``(…, N, outputs_width)``, the concatenated heads.
    """
    query, key, value = (
        part.unflatten(-1, (heads.heads, -1)).transpose(-3, -2)
        for part in heads.inputs(values).chunk(3, dim=-1)
    )
    scores = query @ key.transpose(-2, -1) / heads.head_width**0.5  # (…, heads, N, N)
    mixed = masked_softmax(scores, allowed.to(scores.dtype)) @ value
    return mixed.transpose(-3, -2).flatten(-2)


def self_attention(attention: SelfAttention, values: Tensor, allowed: Tensor) -> Tensor:
    """Apply multi-head self-attention. Shape: as in `head_outputs` -> ``(…, N, width)``."""
    return attention.outputs(head_outputs(attention.heads, values, allowed))


def causal(history: History) -> Tensor:
    """Return which positions a position attends to: itself and earlier behaviours, ``(T + 1, T + 1)``."""
    position = torch.arange(history.real.shape[0], device=history.real.device)
    earlier = position.unsqueeze(0) <= position.unsqueeze(1)
    return earlier & ((history.real > 0) | (position.unsqueeze(1) == position.unsqueeze(0)))
