import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import assert_writings_agree, sharing

from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import adding_to_gradients, coalesce
from deep_interest.ops.histories import gather_slices, history_slices, plain_gather_slices
from deep_interest.ops.jagged import Jagged

CODES = st.lists(st.integers(0, 4), max_size=9)


@given(CODES)
@settings(max_examples=15, deadline=None)
def test_the_writings_of_the_lookup_agree(codes):
    first = torch.tensor(codes, dtype=torch.int32)
    groups = [{0: first, 1: first.flip(0)}, {1: first[:2]}]
    assert_writings_agree(
        lambda a, b: torch.cat([x.flatten() for x in lookup([a, b], groups)]), (5, 3), (5, 2)
    )


def test_a_gradient_has_the_rows_that_were_looked_up():
    table = torch.zeros(100, 2, requires_grad=True)
    lookup([table], [{0: torch.tensor([7, 3, 7], dtype=torch.int32)}])[0].sum().backward()
    assert table.grad.is_sparse
    assert table.grad.coalesce().indices()[0].tolist() == [3, 7]
    assert table.grad.to_dense()[7].tolist() == [2, 2]


def test_a_gradient_that_is_handed_in_is_the_one_that_grad_would_hold():
    tables = [torch.randn(6, 3, requires_grad=True) for _ in range(2)]
    groups = [
        [{0: torch.tensor([5, 1, 5]), 1: torch.tensor([0, 0, 2])}, {0: torch.tensor([1])}],
        [{0: torch.tensor([1, 3])}],
    ]
    total = sum(x.square().sum() for group in groups for x in lookup(tables, group))
    total.backward(retain_graph=True)
    expected = [table.grad.to_dense() for table in tables]
    for table in tables:
        table.grad = None
    with adding_to_gradients():
        total.backward()
    for table, gradient in zip(tables, expected, strict=True):
        assert table.grad is None
        found = coalesce(table)
        torch.testing.assert_close(torch.zeros(6, 3).index_add(0, found.rows, found.gradient), gradient)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), max_size=6))
@settings(max_examples=30, deadline=None)
def test_windows_are_slices_of_the_log(slices):
    log = torch.arange(100, 120, dtype=torch.int32)
    starts, lengths = (torch.tensor([s[k] for s in slices], dtype=torch.int64) for k in (0, 1))
    for threads in (1, 3):
        with sharing(threads):
            fields, runs = (
                {"item_id": log, "category": log * 2},
                Jagged(torch.tensor([0, *lengths.cumsum(0)])),
            )
            found, plain = gather_slices(fields, starts, runs), plain_gather_slices(fields, starts, runs)
        expected = np.concatenate([np.arange(100 + s, 100 + s + n) for s, n in slices] or [[]])
        np.testing.assert_array_equal(found["item_id"], expected)
        np.testing.assert_array_equal(found["category"], expected * 2)
        assert all(torch.equal(plain[name], found[name]) for name in found)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=9), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_newest_behaviours_before_each_sample(samples, max_len):
    offsets, order = torch.tensor([0, 4, 8, 12]), list(range(len(samples)))[::-1]
    users, ends = (torch.tensor([sample[k] for sample in samples], dtype=torch.int32) for k in (0, 1))
    rows = torch.tensor(order, dtype=torch.int64)
    starts, slices, owner = history_slices(rows, users, ends, offsets, max_len=max_len)
    taken = [samples[row] for row in order]
    own = [k for k, sample in enumerate(taken) if k == 0 or sample != taken[k - 1]]
    assert (owner is None) == (len(own) == len(taken))
    for k, (user, end) in enumerate(taken):
        h = k if owner is None else int(owner[k])
        assert own[h] <= k and taken[own[h]] == (user, end)
        assert int(slices[h + 1] - slices[h]) == min(end, max_len)
        assert int(starts[h]) == 4 * user + max(0, end - max_len)
