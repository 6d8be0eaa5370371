"""The benchmark of long histories measures steps of every model on histories of the given length."""

import pytest
import torch
from long_histories import MODELS, long_samples, step_seconds


@pytest.mark.nightly
@pytest.mark.slow
def test_every_history_has_the_length_and_every_model_is_measured():
    batch = long_samples(3, 700).batch(torch.arange(3))
    assert batch.histories.lengths.tolist() == [700] * 3
    seconds = step_seconds(300, list(MODELS), behaviors=600, rounds=1)
    assert set(seconds) == set(MODELS)
    assert all(wall > 0 for wall, _ in seconds.values())
