"""The benchmark of own columns measures a step with and without them."""

import pytest
import torch
from own_columns import OPTIONS, step_seconds, with_columns
from workload import amazon_shaped


@pytest.mark.nightly
@pytest.mark.slow
def test_behaviours_have_the_columns_and_every_option_is_measured():
    plain = amazon_shaped(50)
    columns = with_columns(plain, 2)
    before, after = (samples.batch(torch.arange(50)).history for samples in (plain, columns))
    assert set(after) == {*before, "column_0", "column_1"}
    assert set(after["column_1"].tolist()) == set(range(1, 11))
    seconds = step_seconds("din", batch_size=50, rounds=1)
    assert set(seconds) == {"none", *OPTIONS, "match_counts"}
    assert all(value > 0 for value in seconds.values())
