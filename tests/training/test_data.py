from dataclasses import replace

import numpy as np
import pytest
import torch
from support.training import ITEMS, sample_set, small_data, with_tags

from deep_interest.errors import InputError


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
        for field in ("item_id", "category"):
            np.testing.assert_array_equal(batch.history[field][span].numpy(), expected[field])
        assert batch.candidate["item_id"][b] == row.item
        assert batch.labels[b] == row.label
    np.testing.assert_array_equal(
        batch.histories.segments.numpy(), np.repeat(np.arange(37), batch.histories.lengths.numpy())
    )


def test_neighbours_with_the_same_history_share_it():
    data = small_data()
    samples = sample_set(data)
    alone = samples.batch(samples.requests.argsort(stable=True)[::7])
    rows = samples.requests.argsort(stable=True)[:40]
    batch = samples.batch(rows)
    assert batch.histories.size == len(samples.requests[rows].unique()) < 40
    frame = data.samples[data.samples["split"] == "train"].iloc[rows.numpy()]
    for b, row in enumerate(frame.itertuples()):
        expected = data.log.history(row.user, row.history_end, max_len=100)["item_id"]
        positions = batch.pairs.positions[batch.pairs.offsets[b] : batch.pairs.offsets[b + 1]]
        np.testing.assert_array_equal(batch.history["item_id"][positions].numpy(), expected)
        assert batch.candidate["item_id"][b] == row.item
    assert alone.pairs.size == alone.size


def test_requests_are_the_samples_of_one_user_and_one_history():
    data = small_data()
    frame = data.samples[data.samples["split"] == "train"]
    requests = sample_set(data).requests.numpy()
    expected = frame.groupby(["user", "history_end"]).ngroup().to_numpy()
    assert len(set(zip(requests, expected, strict=True))) == len(set(requests)) == len(set(expected))


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


def test_drawn_items_are_uniform_over_all_items_but_the_one_clicked():
    store = sample_set(small_data()).store
    clicked = torch.full((40_000,), 7, dtype=torch.int32)
    torch.manual_seed(0)
    drawn = store.sample_negatives({"item_id": clicked, "category": store.items["category"][clicked]})
    counts = np.bincount(drawn["item_id"].numpy(), minlength=ITEMS + 1)
    assert counts[0] == counts[7] == 0
    others = np.delete(counts, [0, 7])
    expected = len(clicked) / len(others)
    assert np.abs(others - expected).max() < 5 * np.sqrt(expected)
    assert torch.equal(drawn["category"], store.items["category"][drawn["item_id"]])


def test_without_items_a_drawn_item_differs_in_the_fields_that_there_are():
    store = sample_set(small_data()).store
    clicked = torch.full((5_000,), 2, dtype=torch.int32)
    torch.manual_seed(0)
    drawn = store.sample_negatives({"category": clicked})["category"]
    assert set(drawn.tolist()) == {1, 3, 4}


def test_a_batch_has_drawn_items_only_when_asked():
    samples, rows = sample_set(small_data()), torch.arange(20)
    assert samples.batch(rows).negatives is None
    batch = samples.batch(rows, negatives=("item_id", "category"))
    assert (batch.negatives["item_id"] != batch.history["item_id"]).all()
    assert set(batch.negatives) == set(batch.history)


def test_nothing_can_be_drawn_of_a_single_item():
    store = sample_set(small_data()).store
    one = replace(store, items={"item_id": torch.tensor([0, 1], dtype=torch.int32)})
    with pytest.raises(InputError, match="found one item"):
        one.sample_negatives({"item_id": torch.tensor([1], dtype=torch.int32)})


@pytest.mark.parametrize("data", [small_data(), with_tags(small_data())], ids=["one-hot", "multi-hot"])
def test_the_host_remembers_what_is_on_a_device(data):
    here = sample_set(data)
    elsewhere = sample_set(data, device="meta").on_host  # meta: a device that has no values to give
    rows = torch.arange(50)
    torch.manual_seed(0)
    batch = here.batch(rows, negatives=("item_id",))
    torch.manual_seed(0)
    same = elsewhere.batch(rows, negatives=("item_id",))
    for group in ("candidate", "history", "negatives"):
        of_same = getattr(same, group)
        assert of_same.keys() == getattr(batch, group).keys()
        assert all(torch.equal(codes, of_same[name]) for name, codes in getattr(batch, group).items())
    assert torch.equal(batch.offsets, same.offsets)
    assert torch.equal(batch.labels, same.labels)
