"""DIN's attention without gradients has the results of the one with gradients, whatever columns repeat."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.ops import jagged, layers_of, parameter_shapes, partitioned

from deep_interest.ops.attention import attention_pool
from deep_interest.ops.attention_inference import RepeatedColumns
from deep_interest.ops.jagged import share_segments
from deep_interest.ops.mlp import Layer, Layers

WIDTH = 6  # columns of a field


def case(behaviors, queries, fields, hidden, blocks):
    """Behaviours and queries of embedded codes: the first field has many values, the others few."""
    generator = torch.Generator().manual_seed(behaviors + 1000 * queries)
    sizes = [1000] + [3 + field for field in range(fields - 1)]
    tables = [torch.randn(size, WIDTH, generator=generator) for size in sizes]
    codes = [
        [torch.randint(len(table), (count,), generator=generator) for table in tables]
        for count in (behaviors, queries)
    ]
    vectors = [
        torch.cat([table[of] for table, of in zip(tables, part, strict=True)], dim=1) for part in codes
    ]
    shapes = parameter_shapes([blocks * fields * WIDTH, *hidden, 1])
    layers = layers_of(
        [torch.randn(shape, generator=generator) / 4 for shape in shapes],
        ["prelu"] * len(hidden) + ["linear"],
    )
    repeated = [
        RepeatedColumns(field * WIDTH, (field + 1) * WIDTH, codes[0][field].int())
        for field in range(1, fields)
    ]
    history = jagged([behaviors])
    pairs = share_segments(history, torch.zeros(queries, dtype=torch.int64))
    return *vectors, layers, pairs, repeated


@given(
    st.sampled_from([1, 7, 40, 128, 129, 300]), st.sampled_from([1, 16, 17, 60]), st.integers(2, 4), st.sampled_from([3, 4]),
    st.sampled_from([None, 0.5]), st.sampled_from([(80, 40), (5,)]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
@example(300, 60, 2, 3, None, (80, 40))
def test_repeated_columns_change_nothing(behaviors, queries, fields, blocks, scale, hidden):
    values, query, layers, pairs, repeated = case(behaviors, queries, fields, hidden, blocks)
    expected = attention_pool(values.requires_grad_(), query, layers, pairs, softmax_scale=scale).detach()
    with torch.no_grad():
        plain = attention_pool(values, query, layers, pairs, softmax_scale=scale)
        split = attention_pool(values, query, layers, pairs, softmax_scale=scale, repeated=repeated)
    torch.testing.assert_close(plain, expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(split, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_other_activations_have_the_results_of_the_plain_implementation(activation):
    values, query, layers, pairs, repeated = case(40, 60, 2, (17, 9), 3)
    hidden = [layer._replace(activation=activation, slope=None) for layer in layers[:2]]
    layers = Layers([*hidden, layers[2]])
    doubled = Layers([Layer(of.weight.double(), of.bias.double(), of.activation) for of in layers])
    with torch.no_grad():
        found = attention_pool(values, query, layers, pairs, repeated=repeated)
        plain = attention_pool(values.double(), query.double(), doubled, pairs)
    torch.testing.assert_close(found.double(), plain, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("hidden", [(80, 40), (5,)])
def test_the_number_of_threads_changes_no_bit(hidden):
    values, query, layers, pairs, repeated = case(40, 60, 2, hidden, 3)
    found = []
    for threads in (1, 3):
        with partitioned(threads), torch.no_grad():
            found.append(attention_pool(values, query, layers, pairs, repeated=repeated))
    assert torch.equal(*found)


def test_an_empty_history_is_zero():
    values, query, layers, pairs, repeated = case(0, 20, 2, (8,), 3)
    with torch.no_grad():
        assert not attention_pool(values, query, layers, pairs, repeated=repeated).any()
