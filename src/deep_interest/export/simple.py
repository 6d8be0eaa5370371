"""Forward passes of the models that count or add weights: popularity, LR, ASVD, CF-NADE, item kNN."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.export.inputs import CANDIDATES, CONTEXT, HISTORY, PROFILE
from deep_interest.export.request import Request, table_of
from deep_interest.export.stacking import with_stacking
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.asvd import ASVD, MEAN_STRENGTH
from deep_interest.models.item_knn import SMALLEST_RATE, ItemKNN
from deep_interest.models.lr import LR
from deep_interest.models.nade import NADE, activate
from deep_interest.models.outcomes import HISTORY_STRENGTH, Outcomes
from deep_interest.models.popularity import ItemRate, Popularity


def groups_of(schema: FeatureSchema) -> Iterator[tuple[str, str, tuple[Field, ...]]]:
    """Yield the feature groups that are not empty: key, group of the inputs, fields."""
    groups = (
        ("item", CANDIDATES, schema.item), ("behavior", HISTORY, schema.behavior),
        ("profile", PROFILE, schema.profile), ("context", CONTEXT, schema.context),
    )  # fmt: skip
    return (group for group in groups if group[2])


def count_logits(model: Popularity | ItemRate, request: Request) -> Tensor:
    """Look up the logit of each candidate, ``(C,)``."""
    return model.logits[request.codes(CANDIDATES, ITEM_ID)]


def lr_logits(model: LR, request: Request) -> Tensor:
    """Add the weights of all fields, ``(C,)``; those of the behaviours are averaged (`models.lr`)."""
    total = model.bias.expand(request.size)
    for key, group, fields in groups_of(model.schema):
        for field in fields:
            weights = request.rows_of(group, field, table_of(model.weights, f"{key}_{field.name}"))
            if key == "behavior":
                weights = weights.sum(0, keepdim=True) / _length(weights)
            total = total + weights.squeeze(-1)
    return total


def asvd_logits(model: ASVD, request: Request) -> Tensor:
    """Return the logits ``(C,)`` of the asymmetric factor model (`models.asvd`)."""
    schema, total = model.schema, model.bias.expand(request.size)
    for key, group, fields in groups_of(schema):
        if key != "behavior":
            biases = model.biases.get_submodule(key)
            total = total + _sum_of(request, group, fields, biases).squeeze(-1)
    candidate = _sum_of(request, CANDIDATES, schema.item, model.factors.tables)
    presence = _sum_of(request, HISTORY, schema.shared, model.presence)
    length, user = _length(presence), presence.sum(0)
    if schema.own:
        weights = _sum_of(request, HISTORY, schema.own, model.weights)
        weights = weights - _sum_of(request, HISTORY, schema.shared, model.means)  # (T, 1)
        mean = weights.sum() / (torch.ones_like(weights).sum() + MEAN_STRENGTH)
        factors = _sum_of(request, HISTORY, schema.shared, model.factors.tables)
        total = total + model.of_mean * mean
        user = user + ((weights - mean) * factors).sum(0)
    return total + (candidate * (user * length.rsqrt())).sum(1)


def nade_logits(model: NADE, request: Request) -> Tensor:
    """Return the logits ``(C,)`` of CF-NADE (`models.nade`)."""
    schema, total = model.schema, model.bias.expand(request.size)
    for key, group, fields in groups_of(schema):
        if key != "behavior":
            biases = model.biases.get_submodule(key)
            total = total + _sum_of(request, group, fields, biases).squeeze(-1)
    behaviors = _sum_of(request, HISTORY, schema.shared, model.behaviors)
    for name in model.pairs:
        codes = request.codes(HISTORY, model.crossed) * model.sizes[name] + request.codes(HISTORY, name)
        behaviors = behaviors + F.embedding(codes, table_of(model.pairs, name).weight)
    hidden = activate(model.activation, behaviors.sum(0) * _length(behaviors).rsqrt() + model.offset)
    total = total + _sum_of(request, CANDIDATES, schema.item, model.candidates) @ hidden
    return with_stacking(model.stacking, total, request)


def item_knn_logits(model: ItemKNN, request: Request) -> Tensor:
    """Return the logits ``(C,)`` of the neighbourhood of items (`models.item_knn`)."""
    candidates, items = request.codes(CANDIDATES, model.field), request.codes(HISTORY, model.field)
    i, j = candidates.unsqueeze(1), items.unsqueeze(0)  # (C, 1), (1, T)
    forward, backward = i * model.items + j, j * model.items + i
    similar = _look_up(model.keys, model.similarities, forward) + _look_up(
        model.keys, model.similarities, backward
    )
    by_label = _look_up(model.label_keys, model.label_weights, forward)  # (C, T, 1)
    outcomes = _outcomes(model.outcomes, request, items).unsqueeze(0)  # (1, T, fields)
    terms = [by_label, similar[..., :1], similar[..., :1] * outcomes, similar[..., 1:] * outcomes]
    length = torch.ones_like(items).sum().clamp(min=1).to(similar.dtype)
    sums = torch.cat(terms, dim=2).sum(1) * length.pow(-model.config.normalize)
    rate = torch.logit(model.rates[request.codes(CANDIDATES, ITEM_ID)], eps=SMALLEST_RATE).unsqueeze(1)
    return torch.cat([torch.ones_like(rate), rate, sums], dim=1) @ model.coefficients


def _outcomes(outcomes: Outcomes, request: Request, items: Tensor) -> Tensor:
    """Return the outcomes of the behaviours, ``(T, fields)``."""
    columns = []
    for field in outcomes.fields:
        value, mean = outcomes.get_buffer(f"value_{field.name}"), outcomes.get_buffer(f"mean_{field.name}")
        columns.append(value[request.codes(HISTORY, field.name)] - mean[items])
    if not columns:
        return torch.zeros_like(items, dtype=torch.float32).unsqueeze(1)[:, :0]
    values = torch.stack(columns, dim=1)
    return values - values.sum(0) / (torch.ones_like(values[:, 0]).sum() + HISTORY_STRENGTH)


def _look_up(keys: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """Return the values of pairs, 0 for missing ones, by a binary search (`models.pair_sums.look_up`).

    ONNX has no operation for it; each of the ``log2 k`` steps is a gather.

    Shape: ``keys (k,)`` ascending, ``values (k, columns)``, ``wanted (C, T)`` -> ``(C, T, columns)``.
    """
    if not len(keys):
        return (wanted.unsqueeze(2) * 0).to(values.dtype).expand(-1, -1, values.shape[1])
    position = torch.zeros_like(wanted)  # the last key that is not larger, if there is one
    for step in reversed(range(len(keys).bit_length())):
        further = position + 2**step
        in_range = further < len(keys)
        is_larger = keys[further.clamp(max=len(keys) - 1)] > wanted
        position = torch.where(in_range & ~is_larger, further, position)
    return values[position] * (keys[position] == wanted).unsqueeze(2)


def _sum_of(request: Request, group: str, fields: Sequence[Field], tables: nn.Module) -> Tensor:
    """Look up the rows of the fields and add them. Shape: ``-> (n, width of the tables)``."""
    return reduce(add, [request.rows_of(group, field, table_of(tables, field.name)) for field in fields])


def _length(rows: Tensor) -> Tensor:
    """Return the number of behaviours, at least 1, as a scalar of their type."""
    return torch.ones_like(rows[:, 0]).sum().clamp(min=1)
