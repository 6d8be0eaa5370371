from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.ops import LENGTHS, assert_writings_agree, runs, sharing

from deep_interest.ops.activations import dice, prelu
from deep_interest.ops.attention import attention_pool, pair_mlp
from deep_interest.ops.gradients import adding_to_gradients
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.kernels.gemm import matmul_add, matmul_bias, pack, row_buffer
from deep_interest.ops.mlp import Layer, Layers, mlp
from deep_interest.ops.weights import flatten
from deep_interest.training.update_rules import Flat


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_prelu(rows):
    assert_writings_agree(prelu, (rows, 6), (6,))


def test_prelu_bends_at_zero():
    x, slope = torch.tensor([[-2.0, 0.0, 3.0]]), torch.tensor([0.5, 0.5, 0.5])
    assert prelu(x, slope).tolist() == [[-1.0, 0.0, 3.0]]


WIDTHS = st.lists(st.integers(1, 40), min_size=2, max_size=4)


@given(st.integers(2, 60), st.booleans())
@settings(max_examples=15, deadline=None)
def test_dice(rows, training):
    def of(s, alpha):
        mean, variance = s.new_full((6,), 0.3), s.new_full((6,), 0.7)
        y = dice(s, alpha, mean, variance, training=training, momentum=0.1, eps=1e-3)
        return torch.cat([y, mean[None], variance[None]])

    assert_writings_agree(of, (rows, 6), (6,))


def test_dice_is_exact_far_from_zero():
    s, alpha = torch.randn(1000, 1) * 0.1 + 300, torch.zeros(1)
    y = dice(s, alpha, torch.zeros(1), torch.ones(1), training=True, momentum=0.1, eps=1e-8)
    standard = (s.double() - s.double().mean()) / s.double().std(correction=0)
    torch.testing.assert_close((y / s).double(), standard.sigmoid(), atol=1e-3, rtol=0)


ACTIVATIONS = st.lists(st.sampled_from(["linear", "prelu", "relu", "sigmoid"]), min_size=3, max_size=3)


def layers_of(parameters, activations):
    """Layers of a flat sequence: weight, bias and slope each; small weights, so that float32 is as good as it can be."""
    triples = zip(*[iter(parameters)] * 3, activations, strict=False)
    return Layers(
        Layer(weight * 0.2, bias, kind, slope if kind == "prelu" else None)
        for weight, bias, slope, kind in triples
    )


def parameter_shapes(widths):
    return [shape for i, o in pairwise(widths) for shape in ((o, i), (o,), (o,))]


@given(st.sampled_from([0, 1, 7, 250]), WIDTHS, ACTIVATIONS)
@settings(max_examples=15, deadline=None)
def test_the_writings_of_a_net_agree(rows, widths, activations):
    def operation(x, *parameters):
        return mlp(x, layers_of(parameters, activations))

    assert_writings_agree(operation, (rows, widths[0]), *parameter_shapes(widths), atol=1e-4)


@given(LENGTHS, st.booleans(), st.sampled_from([3, 4]), WIDTHS, ACTIVATIONS)
@settings(max_examples=15, deadline=None)
@example([150, 3, 0, 1, 99], True, 4, [5, 80, 40], ["prelu"] * 3)
def test_the_writings_of_a_net_over_pairs_agree(lengths, shared, blocks, widths, activations):
    pairs = runs(lengths)
    if shared:
        pairs = share_segments(pairs, torch.arange(len(lengths)).repeat_interleave(2))

    def operation(values, queries, *parameters):
        return pair_mlp(values, queries, layers_of(parameters, activations), pairs)

    shapes = parameter_shapes([blocks * widths[0], *widths[1:]])
    assert_writings_agree(operation, (sum(lengths), widths[0]), (pairs.size, widths[0]), *shapes, atol=1e-4)


@given(LENGTHS, st.booleans(), st.sampled_from([None, 0.5]), WIDTHS, ACTIVATIONS)
@settings(max_examples=15, deadline=None)
@example([150, 3, 0, 1, 99], True, 0.5, [5, 80], ["prelu"] * 3)
def test_the_writings_of_the_attention_pool_agree(lengths, shared, scale, widths, activations):
    pairs = runs(lengths)
    if shared:
        pairs = share_segments(pairs, torch.arange(len(lengths)).repeat_interleave(2))

    def operation(values, queries, *parameters):
        layers = layers_of(parameters, activations)
        return attention_pool(values, queries, layers, pairs, softmax_scale=scale)

    shapes = parameter_shapes([3 * widths[0], *widths[1:-1], 1])
    assert_writings_agree(operation, (sum(lengths), widths[0]), (pairs.size, widths[0]), *shapes, atol=1e-4)


def test_histories_that_nobody_shows_have_no_gradient():
    pairs, values = share_segments(runs([2, 3]), torch.tensor([1])), torch.randn(5, 4, requires_grad=True)
    layers = Layers([Layer(torch.randn(1, 12), torch.zeros(1))])
    for operation in (pair_mlp, attention_pool):
        values.grad = None
        operation(values, torch.randn(1, 4), layers, pairs).sum().backward()
        assert not values.grad[:2].any()
        assert values.grad[2:].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])
def test_a_net_over_pairs_is_one_matrix_on_the_concatenation(dtype):
    torch.manual_seed(0)
    jagged, weight, bias = runs([2, 0, 3]), torch.randn(6, 16, dtype=dtype), torch.randn(6, dtype=dtype)
    values, queries = torch.randn(5, 4, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    query = queries[jagged.segments]
    whole = torch.cat([values, query, values * query, values - query], dim=1)
    found = pair_mlp(values, queries, Layers([Layer(weight, bias)]), jagged)
    torch.testing.assert_close(found, whole @ weight.t() + bias, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 1, 1), (7, 5, 17), (6, 16, 16), (13, 33, 40), (25, 3, 100), (12, 9, 16)],
)
def test_a_product_of_tiles(rows, inner, columns):
    rng = np.random.default_rng(0)
    left, right, out = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((rows, inner), (inner, columns), (rows, columns))
    )
    expected = out + left @ right
    matmul_add(left, pack(right), out)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    matmul_add(np.ascontiguousarray(left.T).T, pack(right), out)
    np.testing.assert_allclose(out, expected + left @ right, atol=1e-5)
    lying = row_buffer(inner, columns)
    lying[:] = np.nan  # what rows have beyond their columns is never seen
    lying[:, :columns] = right
    matmul_bias(left[:, 0].mean() * right[0], left, lying, out)
    np.testing.assert_allclose(out, left[:, 0].mean() * right[0] + left @ right, atol=1e-5)


def test_rooms_begin_with_a_cache_line():
    for columns in (1, 16, 40):
        for room in (row_buffer(3, columns), pack(np.ones((3, columns), np.float32))):
            assert room.ctypes.data % 64 == 0
            assert room.flags.c_contiguous


def test_the_number_of_threads_changes_no_bit():
    torch.manual_seed(0)
    x = torch.randn(2_000, 64, requires_grad=True)
    layer = Layer(torch.randn(80, 64, requires_grad=True), torch.zeros(80))
    found = []
    for threads in (1, 3):
        with sharing(threads):
            mlp(x, Layers([layer])).square().sum().backward()
        found.append([x.grad.clone(), layer.weight.grad.clone()])
        x.grad = layer.weight.grad = None
    for one, several in zip(*found, strict=True):
        assert torch.equal(one, several)


def test_numbers_that_lie_side_by_side_are_not_copied():
    shapes = [(3, 2), (3,), (3,), (1, 3), (1,)]
    apart = [torch.randn(shape) for shape in shapes]
    expected = torch.cat([parameter.reshape(-1) for parameter in apart])
    vector = torch.cat([torch.zeros(4), expected])
    together = [
        piece.view(shape) for piece, shape in zip(vector[4:].split([6, 3, 3, 3, 1]), shapes, strict=True)
    ]
    assert torch.equal(flatten(apart), expected)
    assert torch.equal(flatten(together), expected)
    assert flatten(together).data_ptr() == together[0].data_ptr()
    assert torch.equal(flatten(together[::-1]), torch.cat([piece.reshape(-1) for piece in together[::-1]]))
    assert torch.equal(flatten([together[0].t(), *together[1:]])[:6], together[0].t().reshape(-1))


@pytest.mark.parametrize("threads", [None, 1, 3])  # None: the operation is one part
@pytest.mark.parametrize("over_pairs", [False, True])
def test_gradients_that_lie_side_by_side_are_added_to_as_autograd_would(threads, over_pairs):
    torch.manual_seed(0)
    shapes = parameter_shapes([12, 5, 3])
    tensors = [torch.randn(shape) for shape in shapes]
    x, pairs = torch.randn(9, 4 if over_pairs else 12), runs([4, 0, 5])
    queries = torch.randn(3, 4, requires_grad=True)

    def backward(parameters, in_place):
        layers = layers_of(parameters, ["prelu", "prelu"])
        layers = Layers(layer._replace(weight=p) for layer, p in zip(layers, parameters[::3], strict=True))
        with adding_to_gradients() if in_place else nullcontext():
            out = pair_mlp(x, queries, layers, pairs) if over_pairs else mlp(x, layers)
            (out * torch.linspace(1, 2, out.numel()).view_as(out)).sum().backward()

    expected = [tensor.clone().requires_grad_() for tensor in tensors]
    found = [torch.nn.Parameter(tensor.clone()) for tensor in tensors]
    laid = Flat(found)
    with sharing(threads) if threads else nullcontext():
        for _ in range(2):  # the second is added to the first
            backward(expected, False)
            backward(found, True)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
        assert ours.grad.untyped_storage().data_ptr() == laid.gradient.untyped_storage().data_ptr()
