import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import sharing

from deep_interest.ops.gradients import SparseGrad, accumulate_grads, coalesce, coalesce_parts, plain_coalesce


def sparse(codes, *, rows=6, width=3, dtype=torch.float32):
    torch.manual_seed(0)
    values = torch.randn(len(codes), width, dtype=dtype)
    return torch.sparse_coo_tensor(torch.tensor([codes], dtype=torch.int64), values, (rows, width))


def table_with(gradient):
    table = torch.zeros(gradient.shape, requires_grad=True)
    table.grad = gradient
    return table


def dense(found, rows=6):
    return torch.zeros(rows, found.gradient.shape[1]).index_add_(0, found.rows, found.gradient)


@given(st.lists(st.integers(0, 5), max_size=12))
@settings(max_examples=30, deadline=None)
def test_a_merged_gradient_has_each_row_once_and_the_same_sum(codes):
    gradient = sparse(codes)
    for threads in (1, 3):
        with sharing(threads):
            found = coalesce(table_with(gradient))
        assert sorted(found.rows.tolist()) == sorted(set(codes))
        torch.testing.assert_close(dense(found), gradient.to_dense())
    found = plain_coalesce(torch.tensor(codes, dtype=torch.int64), gradient._values())
    torch.testing.assert_close(dense(found), gradient.to_dense())
    if codes:
        counts = found.real[:, 0] == 1
        assert found.rows[counts].tolist() == sorted(set(codes))
        assert set(found.rows.tolist()) == set(codes)
        assert not found.gradient[~counts].any()


def test_pieces_are_columns_of_wider_gradients():
    wide, codes = torch.arange(12.0).view(2, 6), torch.tensor([4, 1], dtype=torch.int32)
    found = dense(
        coalesce_parts(
            torch.zeros(6, 3), [SparseGrad(codes, wide, 2), SparseGrad(codes[:1], torch.ones(1, 3))]
        )
    )
    assert found[4].tolist() == [3, 4, 5]
    assert found[1].tolist() == [8, 9, 10]
    assert not found[[0, 2, 3, 5]].any()


def test_the_number_of_threads_changes_no_bit():
    gradient, found = sparse([0, 1, 0, 2, 1, 0] * 7), []
    for threads in (1, 2, 3):
        with sharing(threads):
            found.append(coalesce(table_with(gradient)).gradient)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_what_was_handed_in_and_a_sparse_gradient_are_merged_together_once():
    table = table_with(sparse([5, 1, 5]))
    expected = table.grad.to_dense()
    for codes in ([1, 2], [2, 0]):
        gradient = torch.randn(2, 3)
        accumulate_grads(table, [SparseGrad(torch.tensor(codes), gradient)])
        expected = expected.index_add(0, torch.tensor(codes), gradient)
    found = coalesce(table)
    assert sorted(found.rows.tolist()) == [0, 1, 2, 5]
    torch.testing.assert_close(dense(found), expected)
    assert table.grad is None
    assert coalesce(table) is None


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 12))
@settings(max_examples=30, deadline=None)
def test_pieces_are_added_in_their_order_however_they_are_shared_out(codes, first):
    torch.manual_seed(0)
    rows, gradient = torch.tensor(codes, dtype=torch.int32), torch.randn(len(codes), 3)
    pieces = [SparseGrad(rows[:first], gradient[:first]), SparseGrad(rows[first:], gradient[first:])]
    expected = torch.zeros(6, 3)
    for code, row in zip(codes, gradient, strict=True):
        expected[code] += row
    for threads in (1, 2, 3):
        with sharing(threads):
            found = coalesce_parts(torch.zeros(6, 3), pieces)
        assert found.rows.tolist() == list(dict.fromkeys(codes))
        assert torch.equal(dense(found), expected)
