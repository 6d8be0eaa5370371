"""DIN's attention with products of bfloat16 factors and sums in float32, for inference; fast on CPUs with AMX.

Behaviours, ``W1 + W3 diag v`` of each query, and the first hidden layer are rounded to bfloat16 (8 significant bits) before they are multiplied;
everything else is float32. The compiled kernel adds in one order on every CPU, with and without AMX, so that a score has the same bits whichever
queries are scored with it. The plain implementation adds in the order of torch: values that round to a neighbour in bfloat16 differ.
"""

import ctypes
import platform
import sys
from functools import cache

import numpy as np
import torch
from llvmlite import binding
from torch import Tensor

from deep_interest.ops.attention import pool_by_scores
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.amx import DEPTH, TILE, tile_configuration
from deep_interest.ops.kernels.attention_bfloat16 import Unit
from deep_interest.ops.kernels.attention_bfloat16 import attention_pool_bfloat16 as pool_kernel
from deep_interest.ops.kernels.pair_layer import Pairs
from deep_interest.ops.mlp import Layer, Layers, activate
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.jit import is_jit_disabled
from deep_interest.ops.runtime.memory import empty
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import expand

_HIDDEN_LAYERS = 2
# Linux grants the state of the tile registers to a process that asks for it: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)
_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18


@cache
def has_amx() -> bool:
    """Return whether this process can multiply bfloat16 matrices with AMX."""
    features = binding.get_host_cpu_features()
    if is_jit_disabled() or not (features.get("amx-tile") and features.get("amx-bf16")):
        return False
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA) == 0


def can_use_bfloat16(layers: Layers) -> bool:
    """Return whether an activation unit has the form that is supported: two hidden layers with PReLU or ReLU."""
    *hidden, last = layers
    return (
        len(hidden) == _HIDDEN_LAYERS
        and all(layer.activation in ("prelu", "relu") for layer in hidden)
        and last.activation == "linear"
    )


def attention_pool_bfloat16(
    values: Tensor, queries: Tensor, layers: Layers, jagged: Jagged, *, softmax_scale: float | None = None
) -> Tensor:
    """Compute `attention.attention_pool` with factors in bfloat16, without gradients.

    Args:
        values: ``(M, D)`` behaviours.
        queries: ``(B, D)`` queries.
        layers: layers that `can_use_bfloat16`.
        jagged: B segments of the behaviours, or shared segments.
        softmax_scale: as there.

    Returns:
        ``(B, D)``; 0 for an empty segment.
    """
    if current_engine() == "plain":
        scores = _plain_scores(values, queries, layers, jagged)
        return pool_by_scores(scores, values, jagged, softmax_scale=softmax_scale)
    if not can_use_compiled(values, queries, layers[0].weight):
        return _compiled_elsewhere(values, queries, layers, jagged, softmax_scale)
    return _compiled(values, queries, layers, jagged, softmax_scale or 0.0)


def _factors(layer: Layer, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return W1 of e, W2 of v and W3 of e∘v, ``(O, D)`` each."""
    w1, w2, w3, *w4 = layer.weight.detach().split(width, dim=1)
    for difference in w4:
        w1, w2 = w1 + difference, w2 - difference
    return w1, w2, w3


def round_to_bfloat16(x: Tensor) -> Tensor:
    """Return the nearest numbers of 8 significant bits, ties away from 0, in the dtype of ``x``."""
    bits = x.float().contiguous().view(torch.int32)
    return ((bits + 0x8000) & -0x10000).view(torch.float32).to(x.dtype)


def _plain_scores(values: Tensor, queries: Tensor, layers: Layers, jagged: Jagged) -> Tensor:
    """Return the score of each pair, ``(N,)``, query by query, since each has a matrix of its own: a slow reference."""
    w1, w2, w3 = _factors(layers[0], values.shape[1])
    rows, offsets = round_to_bfloat16(expand(values, jagged)), jagged.offsets.tolist()
    _, second, last = layers
    weight, found = round_to_bfloat16(second.weight), []
    for b, query in enumerate(queries):
        matrix = round_to_bfloat16(w1 + w3 * query)
        hidden = rows[offsets[b] : offsets[b + 1]] @ matrix.t() + torch.addmv(layers[0].bias, w2, query)
        hidden = round_to_bfloat16(activate(hidden, layers[0]))
        hidden = activate(hidden @ weight.t() + second.bias, second)
        found.append((hidden @ last.weight.t() + last.bias).squeeze(-1))
    return torch.cat(found) if found else values.new_empty(0)


def _compiled_elsewhere(
    values: Tensor, queries: Tensor, layers: Layers, jagged: Jagged, softmax_scale: float | None
) -> Tensor:
    """Compute on the CPU in float32 what is on a GPU or in float64: training judges a version by the scores that are served."""

    def moved(tensor: Tensor) -> Tensor:
        return tensor.detach().to("cpu", torch.float32)

    host_layers = Layers(
        Layer(moved(weight), moved(bias), kind, None if slope is None else moved(slope))
        for weight, bias, kind, slope in layers
    )
    offsets = jagged.offsets.cpu()
    segments = (
        SharedSegments(offsets, jagged.starts.cpu())
        if isinstance(jagged, SharedSegments)
        else Jagged(offsets)
    )
    return _compiled(moved(values), moved(queries), host_layers, segments, softmax_scale or 0.0).to(values)


def _compiled(values: Tensor, queries: Tensor, layers: Layers, jagged: Jagged, scale: float) -> Tensor:
    total = jagged.total
    starts = jagged.starts if isinstance(jagged, SharedSegments) else jagged.offsets[:-1]
    pooled, weights = empty(values, len(queries), values.shape[1]), empty(values, total, 1)
    pairs = Pairs(*as_arrays(values, queries, jagged.offsets, starts))
    tiles = tile_configuration() if has_amx() else None
    arguments = pairs, _unit(queries, layers), tiles, np.float32(scale)
    run_kernel(pool_kernel, *arguments, *as_arrays(weights, pooled), work=total * layers.shape.work // 4)
    return pooled


def _unit(queries: Tensor, layers: Layers) -> Unit:
    w1, w2, w3 = (_padded(w.t(), DEPTH, TILE) for w in _factors(layers[0], queries.shape[1]))
    _, second, last = layers
    upper = (
        _padded(round_to_bfloat16(second.weight.detach().t()), DEPTH, TILE).view(np.uint32)
    ) >> np.uint32(16)
    return Unit(
        w1=w1, w2=w2, w3=w3, bias=_padded(layers[0].bias, TILE), queries=_padded(queries, 1, DEPTH), slope=_slope(layers[0]), second=upper[0::2] | upper[1::2] << np.uint32(16),
        second_bias=_padded(second.bias, TILE), second_slope=_slope(second), last=_padded(last.weight[0], TILE),
        last_bias=last.bias.detach().numpy(),
    )  # fmt: skip


def _slope(layer: Layer) -> np.ndarray:
    slope = torch.zeros_like(layer.bias) if layer.slope is None else layer.slope.expand_as(layer.bias)
    return _padded(slope, TILE)


def _padded(tensor: Tensor, *multiples: int) -> np.ndarray:
    """Return an array whose lengths are rounded up to multiples, with zeros after the values."""
    lengths = [-(-size // of) * of for size, of in zip(tensor.shape, multiples, strict=True)]
    array = np.zeros(lengths, np.float32)
    array[tuple(slice(size) for size in tensor.shape)] = tensor.detach().numpy()
    return array
