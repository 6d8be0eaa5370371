"""The logit of each candidate, by the class of the model: what a model's ``forward`` computes for one user."""

from collections.abc import Mapping
from functools import reduce, singledispatch
from operator import add
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.export.inputs import CANDIDATES, CONTEXT, HISTORY, PROFILE
from deep_interest.export.interests import interest
from deep_interest.export.layers import mlp
from deep_interest.export.match_counts import match_counts
from deep_interest.export.request import History, Request, table_of
from deep_interest.export.simple import asvd_logits, count_logits, item_knn_logits, lr_logits, nade_logits
from deep_interest.export.stacking import with_stacking
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.asvd import ASVD
from deep_interest.models.base import EmbeddingMLP
from deep_interest.models.boosted import Boosted
from deep_interest.models.deepfm import DeepFM
from deep_interest.models.fm import FM, pair_products
from deep_interest.models.item_knn import ItemKNN
from deep_interest.models.lr import LR
from deep_interest.models.nade import NADE
from deep_interest.models.own_fields import OwnFields
from deep_interest.models.pnn import PNN
from deep_interest.models.popularity import ItemRate, Popularity
from deep_interest.models.user_only import UserOnly
from deep_interest.models.wide_deep import CrossProduct, WideDeep, cross_rows


@singledispatch
def logits(model: nn.Module, request: Request) -> Tensor:
    """Return the logit of each candidate, ``(C,)``.

    Args:
        model: trained model.
        request: user and candidates.

    Raises:
        InputError: the model has no forward pass for a single user.
    """
    raise InputError(
        f"export: {type(model).__name__} has no forward pass for a single user in deep_interest.export"
    )


@logits.register
def _(model: Boosted, request: Request) -> Tensor:
    raise InputError(
        "export: boosted is an ensemble of scikit-learn trees over columns that NumPy counts, so it has no graph of "
        "tensor operations; export another model, or score it with `deep_interest.load` or batch scoring"
    )


logits.register(Popularity, count_logits)
logits.register(ItemRate, count_logits)
logits.register(LR, lr_logits)
logits.register(ASVD, asvd_logits)
logits.register(NADE, nade_logits)
logits.register(ItemKNN, item_knn_logits)


@logits.register
def _(model: EmbeddingMLP, request: Request) -> Tensor:
    return _apply_mlp(model, _features(model, request), request)


@logits.register
def _(model: UserOnly, request: Request) -> Tensor:
    interests, others = _interests(model, request, _candidates(model, request))
    features = [interests[0], *others, *interests[1:]]
    return _apply_mlp(model, torch.cat(features, dim=1), request)


@logits.register
def _(model: PNN, request: Request) -> Tensor:
    features = _features(model, request)
    fields = features.unflatten(1, (-1, model.embedding_dim))  # (C, F, D)
    products = (fields @ fields.transpose(1, 2))[:, model.first, model.second]
    return _apply_mlp(model, torch.cat([features, products], dim=1), request)


@logits.register
def _(model: WideDeep, request: Request) -> Tensor:
    return _apply_mlp(model, _features(model, request), request, _crossed(model.wide, request))


@logits.register
def _(model: DeepFM, request: Request) -> Tensor:
    features = _features(model, request)
    products = pair_products(features.unflatten(1, (-1, model.embedding_dim)))
    return _apply_mlp(model, features, request, products, logits(model.linear, request))


@logits.register
def _(model: FM, request: Request) -> Tensor:
    schema, tables = model.schema, model.embeddings.tables
    appended = () if model.config.own_fields == "scale" else schema.own
    history = _history(request, HISTORY, schema, tables, model.own_fields, appended=bool(appended))
    parts = [history.pooled(model.config.pooling), request.vectors(CANDIDATES, schema.item, tables)]
    parts += _profile_and_context(request, schema, tables)
    fields = torch.cat([request.for_each(part) for part in parts], dim=1)
    return logits(model.linear, request) + pair_products(
        fields.unflatten(1, (-1, model.config.embedding_dim))
    )


def _features(model: EmbeddingMLP, request: Request) -> Tensor:
    """Return the input of the MLP ``(C, width)``, as `EmbeddingMLP.features`."""
    candidates = _candidates(model, request)
    interests, others = _interests(model, request, candidates)
    return torch.cat([interests[0], candidates, *others, *interests[1:]], dim=1)


def _candidates(model: EmbeddingMLP, request: Request) -> Tensor:
    return request.vectors(CANDIDATES, model.schema.item, model.embeddings.tables)


def _interests(
    model: EmbeddingMLP, request: Request, candidates: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the interests of all sequences, and the vectors of profile and context, ``(C, …)`` each."""
    tables = model.embeddings.tables
    sequences = [(HISTORY, model), *cast("Mapping[str, EmbeddingMLP]", model.sequences).items()]
    interests = [
        interest(
            of, _history(request, group, of.schema, tables, of.own_fields, appended=len(of.behavior_fields) >
            len(of.schema.shared)), candidates, request, group,
        )
        for group, of in sequences
    ]  # fmt: skip
    others = _profile_and_context(request, model.schema, tables)
    return [request.for_each(part) for part in interests], [request.for_each(part) for part in others]


def _profile_and_context(request: Request, schema: FeatureSchema, tables: nn.Module) -> list[Tensor]:
    groups = ((PROFILE, schema.profile), (CONTEXT, schema.context))
    return [request.vectors(group, fields, tables) for group, fields in groups if fields]


def _history(
    request: Request, group: str, schema: FeatureSchema, tables: nn.Module, own: OwnFields | None, *, appended: bool
) -> History:  # fmt: skip
    """Return the behaviours of a sequence; their own fields scale or extend the shared ones (`models.own_fields`)."""
    vectors = shared = request.vectors(group, schema.shared, tables)
    if own is not None and len(own.scales):
        scales = [
            F.embedding(request.codes(group, name), table_of(own.scales, name).weight) for name in own.scales
        ]
        scale, shift = reduce(add, scales).chunk(2, dim=1)
        vectors = shared + shared * scale + shift
    if own is not None and appended:
        vectors = torch.cat([vectors, request.vectors(group, schema.own, tables)], dim=1)
    return request.padded(group, schema.behavior, vectors, shared)


def _apply_mlp(model: EmbeddingMLP, features: Tensor, request: Request, *added: Tensor) -> Tensor:
    """Return the logits ``(C,)``, as `EmbeddingMLP.logits`."""
    features = model.with_product(features)
    if model.match_counts is not None:
        counts = match_counts(model.match_counts, request).to(features.dtype)
        features = torch.cat([features, counts], dim=1)
    result = mlp(model.mlp, features).squeeze(-1)
    if model.item_bias is not None:
        (field,) = (field for field in model.schema.item if field.name == ITEM_ID)
        result = result + request.rows_of(CANDIDATES, field, model.item_bias).squeeze(-1)
    return with_stacking(model.stacking, reduce(add, added, result), request)


def _crossed(wide: CrossProduct, request: Request) -> Tensor:
    """Return the pooled weights of the pairs of codes, ``(C,)`` (`models.wide_deep.CrossProduct`)."""
    weights = []
    for name, size in wide.sizes.items():
        seen, candidates = request.codes(HISTORY, name), request.codes(CANDIDATES, name)
        table = table_of(wide.weights, name)
        rows = cross_rows(seen, candidates.unsqueeze(1), size, table.num_embeddings)  # (C, T)
        weights.append(F.embedding(rows, table.weight).squeeze(-1).sum(1))
    sums = reduce(add, weights)
    return sums if wide.pooling == "sum" else sums / torch.ones_like(seen).sum().clamp(min=1)
