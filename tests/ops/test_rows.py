import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import sharing

from deep_interest.ops.rows import RowMerger


def sparse(codes, *, rows=6, width=3, dtype=torch.float32):
    torch.manual_seed(0)
    values = torch.randn(len(codes), width, dtype=dtype)
    return torch.sparse_coo_tensor(torch.tensor([codes], dtype=torch.int64), values, (rows, width))


@given(st.lists(st.integers(0, 5), max_size=12))
@settings(max_examples=30, deadline=None)
def test_a_merged_gradient_has_each_row_once_and_the_same_sum(codes):
    gradient, merge = sparse(codes), RowMerger(torch.zeros(6, 3))
    for threads in (1, 3):
        with sharing(threads):
            merged = merge(gradient)
        assert sorted(merged.indices()[0].tolist()) == sorted(set(codes))
        torch.testing.assert_close(merged.to_dense(), gradient.to_dense())


def test_the_number_of_threads_changes_no_bit():
    gradient, merge, found = sparse([0, 1, 0, 2, 1, 0] * 7), RowMerger(torch.zeros(6, 3)), []
    for threads in (1, 2, 3):
        with sharing(threads):
            found.append(merge(gradient).values())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
