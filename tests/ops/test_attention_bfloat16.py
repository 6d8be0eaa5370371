"""DIN's attention in bfloat16: its equations in NumPy, and the compiled implementation against the plain one.

The tests whose names begin with ``test_without_amx`` run the compiled implementation as on CPUs without AMX; the others on what the CPU has.
"""

import numpy as np
import pytest
import torch
from numba import njit
from support.ops import jagged, layers_of, parameter_shapes, partitioned, use_engine

from deep_interest.ops.attention import attention_pool
from deep_interest.ops.attention_bfloat16 import (
    attention_pool_bfloat16,
    can_use_bfloat16,
    has_amx,
    round_to_bfloat16,
)
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.kernels import amx, bfloat16
from deep_interest.ops.mlp import Layer, Layers

KINDS = ["prelu", "prelu", "linear"]


def case(lengths, *, width=12, hidden=(20, 9), blocks=3, kinds=KINDS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = parameter_shapes([blocks * width, *hidden, 1])
    layers = layers_of([torch.randn(shape, generator=generator) for shape in shapes], kinds)
    values = torch.randn(sum(lengths), width, generator=generator)
    return values, torch.randn(len(lengths), width, generator=generator), layers, jagged(lengths)


@torch.inference_mode()
def both(values, queries, layers, segments, *, threads=1, **options):
    """The results of the compiled and of the plain implementation."""
    with use_engine("plain"):
        plain = attention_pool_bfloat16(values, queries, layers, segments, **options)
    with partitioned(threads):
        return attention_pool_bfloat16(values, queries, layers, segments, **options), plain


def nearest(x):
    """The nearest number with 8 significant bits, in NumPy."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.trunc(mantissa * 256 + np.copysign(0.5, mantissa)) / 256, exponent)


def test_numbers_are_rounded_to_eight_significant_bits():
    assert round_to_bfloat16(torch.tensor([1.0, 1.00390625, 1.003, -1.00390625, 0.0])).tolist() == [
        1.0, 1.0078125, 1.0, -1.0078125, 0.0,
    ]  # fmt: skip
    x = torch.randn(1000)
    np.testing.assert_array_equal(round_to_bfloat16(x), nearest(x.numpy()))


def test_the_plain_implementation_has_its_equations_in_numpy():
    values, queries, layers, segments = case([5])
    with use_engine("plain"):
        found = attention_pool_bfloat16(values, queries, layers, segments)
    e, v = values.double().numpy(), queries[0].double().numpy()
    (w, b, _, s), (w_2, b_2, _, s_2), (w_3, b_3, *_) = [
        [x.double().numpy() if isinstance(x, torch.Tensor) else x for x in layer] for layer in layers
    ]
    w1, w2, w3 = np.split(w, 3, axis=1)
    expected = 0
    for row in e:
        x = nearest(np.float32(w1 + w3 * v)) @ nearest(row) + w2 @ v + b
        x = nearest(np.float32(np.where(x > 0, x, s * x)))
        x = nearest(np.float32(w_2)) @ x + b_2
        x = np.where(x > 0, x, s_2 * x)
        expected = expected + (w_3[0] @ x + b_3[0]) * row
    np.testing.assert_allclose(
        found[0], expected, rtol=2e-3, atol=2e-3
    )  # a hidden value may round to its neighbour


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("scale", [None, 0.5])
@pytest.mark.parametrize(
    ("lengths", "options"),
    [
        ([7, 0, 130, 1, 32], {}),
        ([33, 5], {"blocks": 4}),
        ([300], {"width": 128, "hidden": (80, 40)}),
        ([9, 9], {"width": 36, "hidden": (33, 3), "kinds": ["relu", "prelu", "linear"]}),
        ([3], {"width": 5, "hidden": (1, 1)}),
        ([], {}),
    ],
    ids=str,
)
def test_the_compiled_implementation_agrees_with_the_plain_one(lengths, options, scale, threads):
    compiled, plain = both(*case(lengths, **options), threads=threads, softmax_scale=scale)
    torch.testing.assert_close(compiled, plain, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("threads", [1, 3])
def test_candidates_share_histories_in_both_implementations(threads):
    values, _, layers, histories = case([3, 150, 0, 12])
    owner = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])
    queries = torch.randn(len(owner), 12, generator=torch.Generator().manual_seed(1))
    compiled, plain = both(values, queries, layers, share_segments(histories, owner), threads=threads)
    torch.testing.assert_close(compiled, plain, rtol=2e-3, atol=2e-3)
    own = torch.cat([values[int(histories.offsets[h]) : int(histories.offsets[h + 1])] for h in owner])
    copies, _ = both(own, queries, layers, jagged([[3, 150, 0, 12][h] for h in owner]))
    torch.testing.assert_close(compiled, copies, rtol=0, atol=0)


@pytest.fixture(params=["as on this CPU", "without AMX"])
def cpu(request, monkeypatch):
    """The compiled implementation that the CPU has, and the one without AMX."""
    if request.param == "without AMX":
        monkeypatch.setattr("deep_interest.ops.attention_bfloat16.has_amx", lambda: False)


@torch.inference_mode()
def pooled(values, queries, layers, owner, lengths):
    """What `attention_pool_bfloat16` returns for candidates that share histories."""
    segments = share_segments(jagged(lengths), torch.tensor(owner))
    return attention_pool_bfloat16(values, queries, layers, segments)


@pytest.mark.slow
@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [12, 36, 128])
def test_a_score_does_not_depend_on_the_other_candidates(width, threads):
    values, queries, layers, _ = case([41] * 100, width=width, hidden=(80, 40))
    history = values[:41]
    with partitioned(threads):
        alone = [pooled(history, query[None], layers, [0], [41]) for query in queries]
        for size in (2, 100):
            together = pooled(history, queries[:size], layers, [0] * size, [41])
            torch.testing.assert_close(together, torch.cat(alone[:size]), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.usefixtures("cpu")
def test_a_score_does_not_depend_on_the_other_histories():
    lengths = [150, 3, 0, 41]  # the longest needs two chunks, and more rows than the others
    values, queries, layers, segments = case(lengths, width=36, hidden=(80, 40))
    together = pooled(values, queries, layers, [0, 1, 2, 3], lengths)
    for b, length in enumerate(lengths):
        own = values[int(segments.offsets[b]) : int(segments.offsets[b + 1])]
        alone = pooled(own, queries[b : b + 1], layers, [0], [length])
        torch.testing.assert_close(alone[0], together[b], rtol=0, atol=0)


def test_without_amx_the_results_have_the_same_bits(monkeypatch):
    for width, blocks in ((12, 3), (36, 4), (128, 3)):
        values, queries, layers, segments = case([33, 0, 150, 1], width=width, hidden=(80, 40), blocks=blocks)
        with torch.inference_mode():
            expected = attention_pool_bfloat16(values, queries, layers, segments)
            with monkeypatch.context() as patch:
                patch.setattr("deep_interest.ops.attention_bfloat16.has_amx", lambda: False)
                found = attention_pool_bfloat16(values, queries, layers, segments)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@njit
def product(left, right, out, tiles):
    if tiles is None:
        bfloat16.multiply(left, right, out)
    else:
        amx.configure_tiles(tiles.ctypes.data)
        amx.multiply(left, right, out)
        amx.release_tiles()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(32, 32, 16), (64, 96, 48), (32, 128, 80)])
def test_products_are_summed_in_the_order_that_intel_documents(shape):
    rows, inner, columns = shape
    left, right = np.random.default_rng(0).standard_normal((2, 128, 128)).astype(np.float32)
    a, b = nearest(left[:rows, :inner]), nearest(right[:inner, :columns])
    bits = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint32) for x in (a, b)]
    expected = np.zeros((rows, columns), np.float32)
    for first in range(0, inner, 32):
        halves = np.zeros((2, rows, columns), np.float32)
        for k in range(first, first + 32):
            halves[k % 2] += (a[:, k, None] * b[k]).astype(np.float32)
        expected += halves[0] + halves[1]
    for tiles in (None, amx.tile_configuration())[: 1 + has_amx()]:
        found = np.empty((rows, columns), np.float32)
        product(bits[0].astype(np.uint16), bits[1][0::2] | bits[1][1::2] << 16, found, tiles)
        np.testing.assert_array_equal(found, expected)


def test_tensors_that_kernels_cannot_take_are_computed_in_float32():
    values, queries, layers, segments = case([7, 0, 33])
    doubles = Layers(
        Layer(weight.double(), bias.double(), kind, None if slope is None else slope.double())
        for weight, bias, kind, slope in layers
    )
    shared = share_segments(segments, torch.tensor([0, 2, 2]))
    for each in (segments, shared):
        with torch.inference_mode():
            expected = attention_pool_bfloat16(values, queries, layers, each)
            found = attention_pool_bfloat16(values.double(), queries.double(), doubles, each)
        assert found.dtype == torch.float64
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=0)


def test_the_results_are_close_to_those_in_float32():
    values, queries, layers, segments = case([50, 20], width=32, hidden=(80, 40))
    with torch.inference_mode():
        expected = attention_pool(values, queries, layers, segments)
        found = attention_pool_bfloat16(values, queries, layers, segments)
    assert 0 < (found - expected).norm() / expected.norm() < 0.01


@pytest.mark.parametrize(
    ("kinds", "hidden", "expected"),
    [
        (KINDS, (4, 3), True),
        (["prelu", "sigmoid", "linear"], (4, 3), False),
        (["prelu", "linear"], (4,), False),
    ],
)
def test_two_hidden_layers_with_prelu_or_relu_are_supported(kinds, hidden, expected):
    assert can_use_bfloat16(case([1], hidden=hidden, kinds=kinds)[2]) == expected
