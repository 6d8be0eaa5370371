import numpy as np
import pytest
import torch
from support.training import sample_set, small_data


@pytest.mark.parametrize("max_len", [1, 4, 100])
def test_a_batch_holds_each_samples_newest_behaviours_oldest_first(max_len):
    data = small_data()
    samples = sample_set(data, max_len=max_len)
    rows = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))[:37]
    batch = samples.batch(rows)
    frame = data.samples[data.samples["split"] == "train"].iloc[rows.numpy()]
    for b, row in enumerate(frame.itertuples()):
        expected = data.log.history(row.user, row.history_end, max_len=max_len)
        span = slice(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        for field in ("goods", "category"):
            np.testing.assert_array_equal(batch.history[field][span].numpy(), expected[field])
        assert batch.candidate["goods"][b] == row.item
        assert batch.labels[b] == row.label
    np.testing.assert_array_equal(batch.segments.numpy(), np.repeat(np.arange(37), batch.lengths.numpy()))


def test_splits_take_their_own_rows_in_order():
    data = small_data()
    frame = data.samples
    for split in ("train", "validation", "test"):
        np.testing.assert_array_equal(
            sample_set(data, split).item.numpy(), frame.loc[frame["split"] == split, "item"]
        )


def test_an_empty_split_has_no_rows():
    data = small_data()
    data.samples["split"] = "train"
    assert len(sample_set(data, "validation")) == 0
