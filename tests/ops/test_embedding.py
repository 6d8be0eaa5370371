import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import assert_implementations_agree

from deep_interest.ops.embedding import lookup


@pytest.mark.slow
@given(st.lists(st.integers(0, 4), max_size=9))
@settings(max_examples=15, deadline=None)
def test_lookup_implementations_agree(codes):
    first = torch.tensor(codes, dtype=torch.int32)
    groups = [{0: first, 1: first.flip(0)}, {1: first[:2]}]
    assert_implementations_agree(
        lambda a, b: torch.cat([x.flatten() for x in lookup([a, b], groups)]), (5, 3), (5, 2)
    )


def test_a_gradient_has_the_rows_that_were_looked_up():
    table = torch.zeros(100, 2, requires_grad=True)
    lookup([table], [{0: torch.tensor([7, 3, 7], dtype=torch.int32)}])[0].sum().backward()
    assert table.grad.is_sparse
    assert table.grad.coalesce().indices()[0].tolist() == [3, 7]
    assert table.grad.to_dense()[7].tolist() == [2, 2]
