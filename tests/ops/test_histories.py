import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import partitioned

from deep_interest.ops.histories import gather_slices, history_slices, plain_gather_slices
from deep_interest.ops.jagged import Jagged


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), max_size=6))
@settings(max_examples=30, deadline=None)
def test_gathered_slices_are_those_of_the_log(slices):
    log = torch.arange(100, 120, dtype=torch.int32)
    starts, lengths = (torch.tensor([s[k] for s in slices], dtype=torch.int64) for k in (0, 1))
    fields, jagged = {"item_id": log, "category": log * 2}, Jagged(torch.tensor([0, *lengths.cumsum(0)]))
    for threads in (1, 3):
        with partitioned(threads):
            compiled = gather_slices(fields, starts, jagged)
        plain = plain_gather_slices(fields, starts, jagged)
        expected = np.concatenate([np.arange(100 + s, 100 + s + n) for s, n in slices] or [[]])
        np.testing.assert_array_equal(compiled["item_id"], expected)
        np.testing.assert_array_equal(compiled["category"], expected * 2)
        assert all(torch.equal(plain[name], compiled[name]) for name in compiled)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=9), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_slices_are_the_newest_behaviours_before_each_sample(samples, max_len):
    offsets, order = torch.tensor([0, 4, 8, 12]), list(range(len(samples)))[::-1]
    users, ends = (torch.tensor([sample[k] for sample in samples], dtype=torch.int32) for k in (0, 1))
    indices = torch.tensor(order, dtype=torch.int64)
    starts, slices, owner = history_slices(indices, users, ends, offsets, max_len=max_len)
    taken = [samples[index] for index in order]
    own = [k for k, sample in enumerate(taken) if k == 0 or sample != taken[k - 1]]
    assert (owner is None) == (len(own) == len(taken))
    for k, (user, end) in enumerate(taken):
        h = k if owner is None else int(owner[k])
        assert own[h] <= k and taken[own[h]] == (user, end)
        assert int(slices[h + 1] - slices[h]) == min(end, max_len)
        assert int(starts[h]) == 4 * user + max(0, end - max_len)
