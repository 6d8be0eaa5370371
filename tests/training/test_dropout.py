import pytest
import torch
from support.batches import random_batch

from deep_interest.training.dropout import drop_behaviors


def test_dropped_behaviours_leave_their_sample_and_the_rest_stays_in_order():
    torch.manual_seed(0)
    batch = random_batch([50, 0, 30, 1])
    kept = drop_behaviors(batch, 0.5)
    assert kept.histories.lengths.tolist()[1] == 0
    assert 0 < kept.histories.lengths[0] < 50
    for sample in range(4):
        before = batch.history["item_id"][batch.offsets[sample] : batch.offsets[sample + 1]].tolist()
        after = iter(before)
        own = kept.history["item_id"][kept.offsets[sample] : kept.offsets[sample + 1]].tolist()
        assert all(code in after for code in own)  # a subsequence
    assert len(kept.negatives["item_id"]) == len(kept.history["item_id"])


def test_the_share_is_the_rate():
    torch.manual_seed(0)
    kept = drop_behaviors(random_batch([20_000]), 0.3)
    assert kept.histories.lengths.item() / 20_000 == pytest.approx(0.7, abs=0.02)


def test_a_rate_of_zero_drops_nothing():
    batch = random_batch([3, 0, 2])
    assert torch.equal(drop_behaviors(batch, 0.0).history["item_id"], batch.history["item_id"])
