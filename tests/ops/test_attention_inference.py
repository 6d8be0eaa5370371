"""DIN's attention without gradients has the results of the one with gradients, whatever columns repeat."""

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.ops import jagged, layers_of, parameter_shapes

from deep_interest.ops.attention import attention_pool
from deep_interest.ops.attention_inference import RepeatedColumns, _common_columns
from deep_interest.ops.jagged import share_segments

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
        RepeatedColumns(field * WIDTH, (field + 1) * WIDTH, codes[0][field].int(), codes[1][field].int())
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
    assert torch.equal(plain, expected)
    torch.testing.assert_close(split, expected, rtol=1e-5, atol=1e-4)


def test_columns_are_split_only_where_it_saves_products():
    values, query, layers, pairs, repeated = case(40, 60, 2, (8,), 3)
    assert _common_columns(values, query, layers, pairs.total, repeated) is not None
    assert _common_columns(values, query, layers, pairs.total, []) is None
    distinct = [RepeatedColumns(WIDTH, 2 * WIDTH, torch.arange(40), torch.arange(60))]
    assert _common_columns(values, query, layers, pairs.total, distinct) is None
    few = query[:8]
    assert (
        _common_columns(values, few, layers, 320, [repeated[0]._replace(queries=repeated[0].queries[:8])])
        is None
    )


def test_an_empty_history_is_zero():
    values, query, layers, pairs, repeated = case(0, 20, 2, (8,), 3)
    with torch.no_grad():
        assert not attention_pool(values, query, layers, pairs, repeated=repeated).any()
