import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import LENGTHS, assert_implementations_agree, jagged

from deep_interest.ops.jagged import share_segments
from deep_interest.ops.jagged_products import circular_dot, segment_dot, shifted_dot, weighted_sum
from deep_interest.ops.segments import expand, segment_softmax, segment_sum

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "plain"])


@DTYPES
def test_every_operation_agrees_with_a_loop_and_takes_empty_jagged(dtype):
    rng, lengths = np.random.default_rng(0), [2, 0, 3, 1, 0]
    segments = jagged(lengths)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    values, queries = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    weights, scores = rng.normal(size=6), rng.normal(size=6) * 50
    v, q, w, s = (torch.tensor(array, dtype=dtype) for array in (values, queries, weights, scores))
    sums, weighted = segment_sum(v, segments), weighted_sum(w, v, segments)
    products, softmax = segment_dot(v, q, segments), segment_softmax(s, segments)
    (following,) = shifted_dot(v, [2 * v], segments)
    for b in range(5):
        rows = slice(bounds[b], bounds[b + 1])
        np.testing.assert_allclose(sums[b], values[rows].sum(0), atol=1e-5)
        np.testing.assert_allclose(weighted[b], weights[rows] @ values[rows], atol=1e-5)
        np.testing.assert_allclose(products[rows], values[rows] @ queries[b], atol=1e-5)
        exponentials = np.exp(scores[rows] - scores[rows].max(initial=-np.inf))
        np.testing.assert_allclose(softmax[rows], exponentials / exponentials.sum(), atol=1e-5)
        after = np.concatenate([2 * values[rows][1:], np.zeros((min(lengths[b], 1), 3))])
        np.testing.assert_allclose(following[rows], (values[rows] * after).sum(1), atol=1e-5)


@pytest.mark.slow
@given(LENGTHS)
@settings(max_examples=15, deadline=None)
def test_implementations_agree(lengths):
    segments, rows, size = jagged(lengths), sum(lengths), len(lengths)
    assert_implementations_agree(lambda v: segment_sum(v, segments), (rows, 3))
    assert_implementations_agree(lambda w, v: weighted_sum(w, v, segments), (rows,), (rows, 3))
    assert_implementations_agree(lambda v, q: segment_dot(v, q, segments), (rows, 3), (size, 3))
    assert_implementations_agree(lambda s: segment_softmax(s, segments), (rows,))
    assert_implementations_agree(
        lambda v, a, b: torch.cat(shifted_dot(v, [a, b], segments)), *[(rows, 3)] * 3
    )
    for count in (1, 3, rows + 2):
        assert_implementations_agree(
            lambda v, o, count=count: circular_dot(v, o, count), (rows, 3), (rows, 3)
        )


def test_in_circular_dot_the_first_row_follows_the_last():
    values, others = torch.tensor([[1.0, 0], [0, 1], [1, 1]]), torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    expected = [[3, 5, 1, 3], [6, 2, 4, 6], [3, 7, 11, 3]]
    assert circular_dot(values, others, 4).tolist() == expected
    assert circular_dot(values.double(), others.double(), 4).tolist() == expected


def test_slices_and_transposed_tensors_are_accepted():
    segments = jagged([2, 0, 3])
    assert_implementations_agree(lambda v: segment_sum(v.t(), segments), (4, 5))
    assert_implementations_agree(lambda v, w: weighted_sum(w, v[:, 1:3], segments), (5, 4), (5,))
    assert_implementations_agree(lambda v, q: segment_dot(v.t(), q.t(), segments), (4, 5), (4, 3))
    assert_implementations_agree(lambda v, o: shifted_dot(v.t(), [o], segments)[0], (4, 5), (5, 4))
    assert_implementations_agree(lambda v, o: shifted_dot(v, [o.t()], segments)[0], (5, 4), (4, 5))
    assert_implementations_agree(lambda v, o: circular_dot(v.t(), o, 2), (4, 5), (5, 4))
    assert_implementations_agree(lambda v, o: circular_dot(v, o.t(), 2), (5, 4), (4, 5))


@DTYPES
def test_a_value_is_not_multiplied_with_the_next_segment(dtype):
    rows = torch.ones(4, 3, dtype=dtype)
    rows[2] = torch.nan  # first of the second segment
    values = torch.ones(4, 3, dtype=dtype, requires_grad=True)
    (products,) = shifted_dot(values, [rows], jagged([2, 2]))
    products.sum().backward()
    assert products.tolist() == [3, 0, 3, 0]
    assert values.grad.tolist() == [[1] * 3, [0] * 3, [1] * 3, [0] * 3]


def test_softmax_propagates_nan():
    segments = jagged([2, 2])
    scores = torch.tensor([1.0, torch.nan, 0, 0])
    assert segment_softmax(scores, segments).isnan().tolist() == [True, True, False, False]


@given(LENGTHS, st.data())
@settings(max_examples=25, deadline=None)
@pytest.mark.slow
def test_expand_gathers_the_owners_values_and_sums_their_gradients(lengths, data):
    owners = sorted(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9)))
    shared = share_segments(jagged(lengths), torch.tensor(owners, dtype=torch.int64))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    expected = [row for owner in owners for row in range(bounds[owner], bounds[owner + 1])]
    assert shared.positions.tolist() == expected
    assert_implementations_agree(lambda v: expand(v, shared), (sum(lengths), 3))
    rows = torch.arange(float(sum(lengths))).unsqueeze(1)
    assert expand(rows, shared).squeeze(1).tolist() == expected
    assert expand(rows, shared.gathered) is rows
