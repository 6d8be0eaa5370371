import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.ops import LENGTHS, assert_implementations_agree, jagged, layers_of, parameter_shapes

from deep_interest.ops.attention import attention_pool, pair_mlp
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.mlp import Layer, Layers

WIDTHS = st.lists(st.integers(1, 40), min_size=2, max_size=4)
ACTIVATIONS = st.lists(st.sampled_from(["linear", "prelu", "relu", "sigmoid"]), min_size=3, max_size=3)


def segments(lengths, shared):
    """Segments, each of them shared by two samples if ``shared``."""
    own = jagged(lengths)
    return share_segments(own, torch.arange(len(lengths)).repeat_interleave(2)) if shared else own


@pytest.mark.slow
@given(LENGTHS, st.booleans(), st.sampled_from([3, 4]), WIDTHS, ACTIVATIONS)
@settings(max_examples=15, deadline=None)
@example([150, 3, 0, 1, 99], True, 4, [5, 80, 40], ["prelu"] * 3)
def test_pair_mlp_implementations_agree(lengths, shared, blocks, widths, activations):
    pairs = segments(lengths, shared)

    def operation(values, queries, *parameters):
        return pair_mlp(values, queries, layers_of(parameters, activations), pairs)

    shapes = (sum(lengths), widths[0]), (pairs.size, widths[0])
    parameters = parameter_shapes([blocks * widths[0], *widths[1:]])
    assert_implementations_agree(operation, *shapes, *parameters, atol=1e-4)


@pytest.mark.slow
@given(LENGTHS, st.booleans(), st.sampled_from([None, 0.5]), WIDTHS, ACTIVATIONS)
@settings(max_examples=15, deadline=None)
@example([150, 3, 0, 1, 99], True, 0.5, [5, 80], ["prelu"] * 3)
def test_attention_pool_implementations_agree(lengths, shared, scale, widths, activations):
    pairs = segments(lengths, shared)

    def operation(values, queries, *parameters):
        layers = layers_of(parameters, activations)
        return attention_pool(values, queries, layers, pairs, softmax_scale=scale)

    shapes = (sum(lengths), widths[0]), (pairs.size, widths[0])
    parameters = parameter_shapes([3 * widths[0], *widths[1:-1], 1])
    assert_implementations_agree(operation, *shapes, *parameters, atol=1e-4)


def test_behaviours_of_no_segment_have_a_gradient_of_zero():
    pairs, values = share_segments(jagged([2, 3]), torch.tensor([1])), torch.randn(5, 4, requires_grad=True)
    layers = Layers([Layer(torch.randn(1, 12), torch.zeros(1))])
    for operation in (pair_mlp, attention_pool):
        values.grad = None
        operation(values, torch.randn(1, 4), layers, pairs).sum().backward()
        assert not values.grad[:2].any()
        assert values.grad[2:].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])
def test_the_factorised_layer_equals_one_matrix_on_the_concatenation(dtype):
    torch.manual_seed(0)
    pairs, weight, bias = jagged([2, 0, 3]), torch.randn(6, 16, dtype=dtype), torch.randn(6, dtype=dtype)
    values, queries = torch.randn(5, 4, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    query = queries[pairs.segments]
    whole = torch.cat([values, query, values * query, values - query], dim=1)
    out = pair_mlp(values, queries, Layers([Layer(weight, bias)]), pairs)
    torch.testing.assert_close(out, whole @ weight.t() + bias, atol=1e-5, rtol=1e-5)
