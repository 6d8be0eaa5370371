import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.models.length_groups import length_groups
from deep_interest.ops.jagged import Jagged


@given(st.lists(st.integers(0, 40), max_size=30))
def test_every_behaviour_is_once_in_a_rectangle_that_is_at_most_half_padding(lengths):
    offsets = torch.tensor([0, *torch.tensor(lengths, dtype=torch.int64).cumsum(0).tolist()])
    rows, samples = [], []
    for group in length_groups(Jagged(offsets)):
        assert group.real.float().mean() >= 0.5
        for sample, positions, real in zip(group.samples.tolist(), group.positions, group.real, strict=True):
            assert positions[real].tolist() == list(range(offsets[sample], offsets[sample + 1]))
            rows += positions[real].tolist()
            samples.append(sample)
    assert sorted(rows) == list(range(sum(lengths)))
    assert sorted(samples) == [s for s, length in enumerate(lengths) if length]


def test_empty_histories_are_in_no_group_and_cause_no_warning():
    with np.errstate(all="raise"):
        groups = list(length_groups(Jagged(torch.tensor([0, 0, 3, 3, 4]))))
    assert [group.samples.tolist() for group in groups] == [[3], [1]]
