"""The representation of a user for each candidate, by class of the model, as `EmbeddingMLP.represent`."""

from functools import singledispatch
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.export.attention import (
    attention_weights,
    causal,
    head_outputs,
    self_attention,
    short_interest,
    target_attention,
    unit_scores,
)
from deep_interest.export.layers import masked_softmax, mlp
from deep_interest.export.recurrent import gru_states, lstm_last_state
from deep_interest.export.request import History, Request
from deep_interest.export.search import common_buckets, hash_bits, newest_matching, top_scores
from deep_interest.models.attention import AttentionHeads
from deep_interest.models.base import BaseModel, EmbeddingMLP
from deep_interest.models.bst import BST, TransformerBlock
from deep_interest.models.dien import DIEN
from deep_interest.models.din import DIN
from deep_interest.models.dmin import DMIN, FeedForward, InterestHead
from deep_interest.models.eta import ETA
from deep_interest.models.long_history import LongHistoryModel
from deep_interest.models.lstm import LSTM
from deep_interest.models.sdim import SDIM
from deep_interest.models.sim import SIM
from deep_interest.models.stca import STCA, HistoryAttention
from deep_interest.models.target_attention import TargetAttention
from deep_interest.models.twin import TWIN


@singledispatch
def interest(
    model: EmbeddingMLP, history: History, candidates: Tensor, request: Request, group: str
) -> Tensor:
    """Represent the history with regard to each candidate.

    Args:
        model: trained model.
        history: behaviours of the sequence.
        candidates: ``(C, item_width)``.
        request: the request, for codes that a search compares.
        group: input group of the sequence.

    Returns:
        ``(C, interest_width)``, or ``(1, interest_width)`` if it is the same for all candidates.

    Raises:
        InputError: there is no forward pass for a single user of this model.
    """
    raise InputError(
        f"export: {type(model).__name__} has no forward pass for a single user in deep_interest.export"
    )


@interest.register
def _(model: BaseModel, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    return history.pooled(model.pooling)


@interest.register
def _(model: LSTM, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    return lstm_last_state(model.lstm, history)


@interest.register
def _(model: DIN, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    vectors, targets = history.vectors, model.same_fields(candidates)
    if model.positions is not None:
        nearest = (1 + history.distances).clamp(max=model.positions.shape[0] - 1)
        vectors = (vectors + F.embedding(nearest, model.positions)) * history.real.unsqueeze(1)
        targets = targets + model.positions[0]
    scores = unit_scores(model.attention, vectors, targets)
    if model.normalize == "softmax":
        return masked_softmax(scores * vectors.shape[1] ** -0.5, history.real) @ vectors
    return (scores * history.real) @ vectors


@interest.register
def _(model: DIEN, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    states = gru_states(model.extractor, history.vectors, history).every.squeeze(1)  # (T + 1, H)
    if model.evolution == "attention":
        evolved = gru_states(model.evolution_gru, states, history).every.squeeze(1)
        return attention_weights(model.attention, evolved, candidates, history.real) @ evolved
    weights = attention_weights(model.attention, states, candidates, history.real)
    return gru_states(
        model.evolution_gru, states, history, weights, scales_inputs=model.evolution == "aigru"
    ).last


@interest.register
def _(model: BST, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    newest, rows = history.newest(model.length - 1), candidates.shape[0]
    items = torch.cat(
        [newest.vectors.expand(rows, -1, -1), model.same_fields(candidates).unsqueeze(1)], dim=1
    )
    values = torch.cat([items, model.positions.flip(0).expand(rows, -1, -1)], dim=2)  # (C, length, width)
    real = F.pad(newest.real, (0, 1), value=1.0)
    for block in model.blocks:
        assert isinstance(block, TransformerBlock)
        values = _transformer_block(block, values, real)
    if model.output == "candidate":
        return values[:, -1]
    return (values * real.unsqueeze(1)).flip(1).flatten(1)


def _transformer_block(block: TransformerBlock, values: Tensor, real: Tensor) -> Tensor:
    values = block.first_norm(values + self_attention(block.attention, values, real > 0))
    return block.second_norm(values + block.feed_forward(values))


@interest.register
def _(model: DMIN, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    allowed, targets = causal(history), model.same_fields(candidates)
    refined = history.vectors + self_attention(model.refiner, history.vectors, allowed)
    refined = _feed_forward(model.refiner_feed, model.refiner_norm(refined))
    positions = F.embedding(history.distances.clamp(max=model.positions.shape[0] - 1), model.positions)
    results = _heads(model.extractor, refined, allowed)
    interests = []
    for head, result in zip(model.interests, results, strict=True):
        assert isinstance(head, InterestHead)
        outputs = _feed_forward(head.feed, head.norm(refined + head.back(result)))
        interests.append(_positional_attention(head, outputs, targets, positions, history.real))
    total = history.pooled("sum")
    return torch.cat([*interests, request.for_each(total), targets * total], dim=1)


def _heads(heads: AttentionHeads, values: Tensor, allowed: Tensor) -> tuple[Tensor, ...]:
    return head_outputs(heads, values, allowed).chunk(heads.heads, dim=1)


def _feed_forward(feed: FeedForward, x: Tensor) -> Tensor:
    return x + mlp(feed.net, x)


def _positional_attention(
    head: InterestHead, outputs: Tensor, targets: Tensor, positions: Tensor, real: Tensor
) -> Tensor:
    """Attend to a head's outputs with position-aware queries (`models.dmin.PositionalUnit`): ``(C, width)``."""
    unit, width = head.unit, targets.shape[1]
    of_candidate, of_position = unit.query.weight.split([width, positions.shape[1]], dim=1)
    queries = (
        F.linear(targets, of_candidate, unit.query.bias).unsqueeze(1) + positions @ of_position.t()
    )  # (C, T + 1, width)
    rows = outputs.expand_as(queries)
    scores = mlp(unit.net, torch.cat([queries, rows, queries - rows, queries * rows], dim=2)).squeeze(-1)
    return masked_softmax(scores, real) @ outputs


@interest.register
def _(model: SDIM, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    behaviors = hash_bits(history.shared, model.planes)
    targets = hash_bits(model.same_fields(candidates), model.planes)
    in_bucket = common_buckets(behaviors, targets, model.hashing.rounds) * history.real
    long = F.normalize(in_bucket @ history.vectors, dim=2).mean(1)
    if model.short is None:
        return long
    return torch.cat([long, short_interest(model.short, history, candidates, model.short_length)], dim=1)


@interest.register
def _(model: STCA, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    query = model.query(candidates)
    outputs: list[Tensor] = []
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, HistoryAttention)
        if i:
            query = model.fused[i - 1](torch.cat([candidates, *outputs], dim=1))
        outputs.append(target_attention(layer.attention, layer.feed(history.vectors), query, history.real))
    return torch.cat(outputs, dim=1)


@interest.register
def _(model: LongHistoryModel, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    selected = search(model, history, candidates, request, group)  # (C, T + 1)
    attention = cast("TargetAttention", model.get_submodule("attention"))
    long = target_attention(attention, history.vectors, candidates, selected.unsqueeze(1))
    if model.short is None:
        return long
    return torch.cat([long, short_interest(model.short, history, candidates, model.short_length)], dim=1)


@singledispatch
def search(
    model: LongHistoryModel, history: History, candidates: Tensor, request: Request, group: str
) -> Tensor:
    """Return which behaviours a model selects for each candidate, float ``(C, T + 1)``.

    Args:
        model, history, candidates, request, group: as in `interest`.
    """
    raise InputError(
        f"export: {type(model).__name__} has no search for a single user in deep_interest.export"
    )


@search.register
def _(model: SIM, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    if model.soft is None:
        codes = F.pad(request.codes(group, model.search_field), (1, 0))
        return newest_matching(codes, request.codes("candidates", model.search_field), model.search_length)
    return top_scores(model.soft.queries(candidates) @ history.shared.t(), history.real, model.search_length)


@search.register
def _(model: ETA, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    behaviors = hash_bits(history.shared, model.planes)
    targets = hash_bits(model.same_fields(candidates), model.planes)
    agreeing = targets @ behaviors.t()  # number of bits minus twice the Hamming distance
    return top_scores(agreeing, history.real, model.search_length)


@search.register
def _(model: TWIN, history: History, candidates: Tensor, request: Request, group: str) -> Tensor:
    scores = model.attention.queries(candidates).sum(1) @ history.vectors.t()
    return top_scores(scores, history.real, model.search_length)
