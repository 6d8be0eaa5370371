import pytest
import torch
from hypothesis import given, settings
from support.ops import LENGTHS, assert_writings_agree, runs

from deep_interest.ops.activations import prelu
from deep_interest.ops.pair_layer import pair_layer


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_prelu(rows):
    assert_writings_agree(prelu, (rows, 6), (6,))


def test_prelu_bends_at_zero():
    x, slope = torch.tensor([[-2.0, 0.0, 3.0]]), torch.tensor([0.5, 0.5, 0.5])
    assert prelu(x, slope).tolist() == [[-1.0, 0.0, 3.0]]


@given(LENGTHS)
@settings(max_examples=15, deadline=None)
def test_the_writings_of_the_pair_layer_agree(lengths):
    jagged, size = runs(lengths), len(lengths)
    assert_writings_agree(
        lambda *tensors: pair_layer(*tensors, jagged),
        (sum(lengths), 4),
        (size, 4),
        (sum(lengths), 3),
        (size, 3),
        (3, 4),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])
def test_the_pair_layer_is_one_matrix_on_the_concatenation(dtype):
    torch.manual_seed(0)
    jagged, weight = runs([2, 0, 3]), torch.randn(6, 12, dtype=dtype)
    values, queries = torch.randn(5, 4, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    query = queries[jagged.segments]
    expected = torch.cat([values, query, values * query], dim=1) @ weight.t()
    value_weight, query_weight, product_weight = weight.split(4, dim=1)
    found = pair_layer(
        values, queries, values @ value_weight.t(), queries @ query_weight.t(), product_weight, jagged
    )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
