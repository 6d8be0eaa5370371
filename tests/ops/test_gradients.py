import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import partitioned

from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import GradientAccumulator, SparseGrad, plain_coalesce

ROWS, WIDTH = 6, 3


def table_with(gradient=None):
    table = torch.zeros(ROWS, WIDTH, requires_grad=True)
    table.grad = gradient
    return table


def sparse_tensor(codes, values):
    indices = torch.tensor([codes], dtype=torch.int64)
    return torch.sparse_coo_tensor(indices, values, (ROWS, WIDTH), check_invariants=False)


def coalesced(*grads):
    """The sum of some gradients of a table."""
    table = table_with()
    accumulator = GradientAccumulator([table])
    accumulator.add(table, grads)
    (gradient,) = accumulator.coalesce()
    return gradient


def dense(gradient):
    return torch.zeros(ROWS, WIDTH).index_add_(0, gradient.rows, gradient.gradient)


@given(st.lists(st.integers(0, ROWS - 1), max_size=12))
@settings(max_examples=30, deadline=None)
def test_a_coalesced_gradient_has_each_row_once_and_the_same_sum(codes):
    torch.manual_seed(0)
    rows, values = torch.tensor(codes, dtype=torch.int64), torch.randn(len(codes), WIDTH)
    expected = torch.zeros(ROWS, WIDTH).index_add(0, rows, values)
    for threads in (1, 3):
        with partitioned(threads):
            compiled = coalesced(SparseGrad(rows, values))
        assert sorted(compiled.rows.tolist()) == sorted(set(codes))
        torch.testing.assert_close(dense(compiled), expected)
    plain = plain_coalesce([SparseGrad(rows, values)], WIDTH)
    torch.testing.assert_close(dense(plain), expected)
    if codes:
        counts = plain.mask[:, 0] == 1
        assert plain.rows[counts].tolist() == sorted(set(codes))
        assert set(plain.rows.tolist()) == set(codes)
        assert not plain.gradient[~counts].any()


def test_a_gradient_may_be_some_columns_of_a_wider_tensor():
    wide, codes = torch.arange(12.0).view(2, 6), torch.tensor([4, 1], dtype=torch.int32)
    grads = [SparseGrad(codes, wide, 2), SparseGrad(codes[:1], torch.ones(1, WIDTH))]
    for gradient in (coalesced(*grads), plain_coalesce(grads, WIDTH)):
        total = dense(gradient)
        assert total[4].tolist() == [3, 4, 5]
        assert total[1].tolist() == [8, 9, 10]
        assert not total[[0, 2, 3, 5]].any()


def test_the_number_of_threads_changes_no_bit_of_a_coalesced_gradient():
    torch.manual_seed(0)
    rows, values, sums = torch.tensor([0, 1, 0, 2, 1, 0] * 7), torch.randn(42, WIDTH), []
    for threads in (1, 2, 3):
        with partitioned(threads):
            sums.append(coalesced(SparseGrad(rows, values)).gradient)
    assert torch.equal(sums[0], sums[1])
    assert torch.equal(sums[0], sums[2])


def test_accumulated_gradients_and_a_sparse_grad_are_summed_together_once():
    values = torch.randn(3, WIDTH)
    table = table_with(sparse_tensor([5, 1, 5], values))
    expected = table.grad.to_dense()
    accumulator = GradientAccumulator([table_with(), table])
    for codes in ([1, 2], [2, 0]):
        gradient = torch.randn(2, WIDTH)
        accumulator.add(table, [SparseGrad(torch.tensor(codes), gradient)])
        expected = expected.index_add(0, torch.tensor(codes), gradient)
    untouched, total = accumulator.coalesce()
    assert untouched is None
    assert sorted(total.rows.tolist()) == [0, 1, 2, 5]
    torch.testing.assert_close(dense(total), expected)
    assert table.grad is None
    assert accumulator.coalesce() == [None, None]


@given(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=12), st.integers(0, 12))
@settings(max_examples=30, deadline=None)
@pytest.mark.slow
def test_gradients_are_added_in_their_order_for_any_number_of_threads(codes, first):
    torch.manual_seed(0)
    rows, values = torch.tensor(codes, dtype=torch.int32), torch.randn(len(codes), WIDTH)
    grads = [SparseGrad(rows[:first], values[:first]), SparseGrad(rows[first:], values[first:])]
    expected = torch.zeros(ROWS, WIDTH)
    for code, row in zip(codes, values, strict=True):
        expected[code] += row
    for threads in (1, 2, 3):
        with partitioned(threads):
            gradient = coalesced(*grads)
        assert gradient.rows.tolist() == list(dict.fromkeys(codes))
        assert torch.equal(dense(gradient), expected)


def test_a_cleared_accumulator_has_no_gradients():
    table = table_with(sparse_tensor([1], torch.ones(1, WIDTH)))
    accumulator = GradientAccumulator([table])
    accumulator.add(table, [SparseGrad(torch.tensor([2]), torch.ones(1, WIDTH))])
    accumulator.clear()
    assert accumulator.coalesce() == [None]


def test_the_gradient_of_another_table_is_refused():
    accumulator = GradientAccumulator([table_with()])
    with pytest.raises(KeyError):
        accumulator.add(table_with(), [SparseGrad(torch.tensor([2]), torch.ones(1, WIDTH))])


def test_a_lookup_accumulates_the_gradient_that_autograd_would_return():
    tables = [torch.randn(ROWS, WIDTH, requires_grad=True) for _ in range(2)]
    groups = [
        [{0: torch.tensor([5, 1, 5]), 1: torch.tensor([0, 0, 2])}, {0: torch.tensor([1])}],
        [{0: torch.tensor([1, 3])}],
    ]

    def backward(accumulator):
        rows = [x for group in groups for x in lookup(tables, group, accumulator=accumulator)]
        sum(x.square().sum() for x in rows).backward()

    backward(None)
    expected = [table.grad.to_dense() for table in tables]
    for table in tables:
        table.grad = None
    accumulator = GradientAccumulator(tables)
    backward(accumulator)
    assert all(table.grad is None for table in tables)
    for gradient, total in zip(accumulator.coalesce(), expected, strict=True):
        torch.testing.assert_close(dense(gradient), total)
