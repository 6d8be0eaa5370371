"""DIN's attention where no gradients are needed, as in serving: fewer products, and nothing is kept."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.attention import pack_pair_forward
from deep_interest.ops.kernels.attention_inference import (
    CommonColumns,
    attention_pool_common,
    attention_pool_inference,
    pack_columns,
)
from deep_interest.ops.kernels.pair_layer import Pairs
from deep_interest.ops.mlp import Layers
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.weights import flatten

_MAX_SHARE = 0.7  # of the pairs that have distinct common columns, from which on computing their products first does not pay
_MIN_QUERIES = 16


class RepeatedColumns(NamedTuple):
    """Columns that depend on a code alone, such as the embedding of a category.

    Attributes:
        begin, end: columns of the behaviours and queries.
        behaviors: ``(M,)`` code of each behaviour.
        queries: ``(B,)`` code of each query.
    """

    begin: int
    end: int
    behaviors: Tensor
    queries: Tensor


def attention_pool_without_gradients(
    values: Tensor,
    queries: Tensor,
    layers: Layers,
    jagged: Jagged,
    *,
    scale: float,
    repeated: Sequence[RepeatedColumns] = (),
) -> Tensor:
    """Compute `attention.attention_pool` of tensors that the compiled implementation supports.

    The first layer's ``W3 (e∘v)`` is a sum over columns. Where all queries share one history and some columns take few distinct values,
    because behaviours and candidates have categories in common, their part of the sum is computed once for each pair of distinct values.

    Args:
        values, queries, layers, jagged: as there.
        scale: scale of the softmax; 0 for none.
        repeated: columns that depend on a code alone.
    """
    shape, total = layers.shape, jagged.total
    params = shape.params(flatten(layers.parameters))
    packed = pack_pair_forward(params, values.shape[1])
    pooled, weights = empty(values, len(queries), values.shape[1]), empty(values, total, shape.widths[-1])
    starts = jagged.starts if isinstance(jagged, SharedSegments) else jagged.offsets[:-1]
    outputs = np.float32(scale), *as_arrays(weights, pooled)
    found = _common_columns(values, queries, layers, total, repeated)
    if found is None:
        pairs = Pairs(*as_arrays(values, queries, jagged.offsets, starts))
        run_kernel(attention_pool_inference, pairs, params, packed, *outputs, work=total * shape.work)
        return pooled
    columns, order = found
    pairs = Pairs(*as_arrays(values, queries[order], jagged.offsets, starts))
    run_kernel(attention_pool_common, pairs, columns, params, packed, *outputs, work=total * shape.work)
    result = torch.empty_like(pooled)
    result[order] = pooled
    return result


def _common_columns(
    values: Tensor, queries: Tensor, layers: Layers, total: int, repeated: Sequence[RepeatedColumns]
) -> tuple[CommonColumns, Tensor] | None:
    """Return the common columns and the order of the queries, if splitting the columns pays."""
    if not repeated or len(queries) < _MIN_QUERIES or total != len(queries) * len(values) or not total:
        return None
    query, first_query = _numbers([of.queries for of in repeated])
    behavior, first_behavior = _numbers([of.behaviors for of in repeated])
    if len(first_query) * len(first_behavior) > _MAX_SHARE * total:
        return None
    width = values.shape[1]
    is_common = np.zeros(width, bool)
    for of in repeated:
        is_common[of.begin : of.end] = True
    common, other = np.flatnonzero(is_common), np.flatnonzero(~is_common)
    if not len(other):
        return None
    w1, _, w3, *difference = layers[0].weight.detach().split(width, dim=1)
    rows = values @ (w1 + difference[0] if difference else w1).t()
    order = np.argsort(query, kind="stable")
    v, e, w3 = queries.numpy(), values.numpy(), w3.numpy()
    columns = CommonColumns(
        rows.numpy(), behavior, query[order], pack_columns(w3, common), pack_columns(w3, other),
        np.ascontiguousarray(e[first_behavior][:, common]), np.ascontiguousarray(v[order][:, common]),
        np.ascontiguousarray(e[:, other]), np.ascontiguousarray(v[order][:, other]),
    )  # fmt: skip
    return columns, torch.from_numpy(order)


def _numbers(codes: Sequence[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct combinations of codes ``(n,)``; return the number of each row, and a row of each number."""
    combined = codes[0].numpy().astype(np.int64)
    for more in codes[1:]:
        _, combined = np.unique(combined, return_inverse=True)
        _, inverse = np.unique(more.numpy(), return_inverse=True)
        combined = combined * (int(inverse.max(initial=0)) + 1) + inverse
    _, first, numbers = np.unique(combined, return_index=True, return_inverse=True)
    return numbers, first
