"""DIN's attention where no gradients are needed, as in serving: fewer products, and nothing is kept."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.attention import pack_pair_forward
from deep_interest.ops.kernels.attention_inference import attention_pool_inference
from deep_interest.ops.kernels.attention_lanes import attention_pool_lanes, pack_unit
from deep_interest.ops.kernels.gru_lanes import shared_groups
from deep_interest.ops.kernels.pair_layer import Pairs
from deep_interest.ops.mlp import Layers
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.weights import flatten

MIN_SHARING = 4  # segments with the same behaviours, on average, from which on they are computed together
_HIDDEN_LAYERS = 2


class RepeatedColumns(NamedTuple):
    """Columns that depend on a code alone, such as the embedding of a category.

    Attributes:
        begin, end: columns of the behaviours and queries.
        behaviors: ``(M,)`` code of each behaviour.
    """

    begin: int
    end: int
    behaviors: Tensor


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

    Where several queries in a row share a history, as the candidates of a request do, they are computed together; see `kernels.attention_lanes`.

    Args:
        values, queries, layers, jagged: as there.
        scale: scale of the softmax; 0 for none.
        repeated: columns that depend on a code alone.
    """
    shape, total = layers.shape, jagged.total
    params, work = shape.params(flatten(layers.parameters)), total * shape.work
    pooled, weights = empty(values, len(queries), values.shape[1]), empty(values, total, shape.widths[-1])
    starts = jagged.starts if isinstance(jagged, SharedSegments) else jagged.offsets[:-1]
    pairs, outputs = Pairs(*as_arrays(values, queries, jagged.offsets, starts)), as_arrays(weights, pooled)
    if isinstance(jagged, SharedSegments) and _has_two_hidden_layers(layers):
        groups = shared_groups(pairs.offsets, pairs.starts)
        if MIN_SHARING * len(groups) <= len(queries):
            columns, codes = _split(repeated, *values.shape)
            unit = pack_unit(params, values.shape[1], columns)
            arguments = pairs, codes, columns, groups, unit, np.float32(scale), *outputs
            run_kernel(attention_pool_lanes, *arguments, work=work)
            return pooled
    packed = pack_pair_forward(params, values.shape[1])
    run_kernel(attention_pool_inference, pairs, params, packed, np.float32(scale), *outputs, work=work)
    return pooled


def _has_two_hidden_layers(layers: Layers) -> bool:
    *hidden, last = layers
    activated = all(layer.activation != "linear" for layer in hidden)
    return len(hidden) == _HIDDEN_LAYERS and activated and last.activation == "linear" and len(last.bias) == 1


def _split(
    repeated: Sequence[RepeatedColumns], behaviors: int, width: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return the repeated columns and the others, and a number for each behaviour that is equal for equal repeated columns."""
    is_common = np.zeros(width, bool)
    codes = np.zeros(behaviors, np.int64)
    for of in repeated:
        is_common[of.begin : of.end] = True
        if codes.any():
            _, codes = np.unique(np.stack([codes, of.behaviors.numpy()]), axis=1, return_inverse=True)
        else:
            codes = of.behaviors.numpy().astype(np.int64)
    return (np.flatnonzero(is_common), np.flatnonzero(~is_common)), codes
