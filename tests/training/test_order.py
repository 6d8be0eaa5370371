"""The order of the samples in an epoch, and samples that are mapped into memory."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from support.training import sample_set, small_data

from deep_interest.io import mapped
from deep_interest.logs.sample_columns import load_samples, save_samples
from deep_interest.logs.storage import load_log, save_log
from deep_interest.training.content import Data
from deep_interest.training.experiment import Experiment
from deep_interest.training.order import SampleOrder
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import train_experiment


def order_of(samples, window, *, together="sample", step=50, seed=3, epoch=1):
    order = SampleOrder(samples, seed=seed, epoch=epoch, window=window, together=together)
    parts = [order[begin : begin + step] for begin in range(0, len(samples), step)]
    order.close()
    return torch.cat(parts)


@pytest.fixture(scope="module")
def samples():
    return sample_set(small_data())


@pytest.mark.parametrize("together", ["sample", "request", "user"])
@pytest.mark.parametrize("window", [7, 50, 64, 215, 216, 1000, None])
def test_an_epoch_takes_every_sample_once_window_by_window(samples, window, together):
    order = order_of(samples, window, together=together)
    assert sorted(order.tolist()) == list(range(len(samples)))
    places = (order // (window or len(samples))).tolist()
    changes = sum(a != b for a, b in itertools.pairwise(places))
    assert changes == len(set(places)) - 1  # a window ends before the next one begins


def test_one_window_of_all_samples_is_the_order_without_windows(samples):
    expected = torch.randperm(len(samples), generator=torch.Generator().manual_seed(3 * 1_000_003 + 1))
    assert order_of(samples, None).tolist() == order_of(samples, 216).tolist() == expected.tolist()


def test_windows_and_their_samples_come_in_another_order_in_every_epoch(samples):
    orders = [order_of(samples, 20, epoch=epoch).tolist() for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert len({tuple(row // 20 for row in order) for order in orders}) == 3
    assert orders[0] == order_of(samples, 20, epoch=0, step=13).tolist()  # whatever is read at a time


def test_requests_stay_together_within_a_window(samples):
    order, requests = order_of(samples, 40, together="request"), samples.requests
    for begin in range(0, 216, 40):
        rows = order[(order >= begin) & (order < begin + 40)]
        found = requests[rows].tolist()
        assert sum(a != b for a, b in itertools.pairwise(found)) == len(set(found)) - 1


def mapped_data(folder):
    """The small data in files that are mapped into memory, and in memory in the same order."""
    data = small_data()
    parts = [data.samples.iloc[:100], data.samples.iloc[100:]]
    save_samples(lambda: iter(parts), folder / "samples")
    save_log(data.log, folder / "log")
    stored = load_samples(folder / "samples")
    resident = pd.DataFrame({name: np.array(stored[name]) for name in stored if name != "split"})
    resident["split"] = stored["split"]
    return (
        Data(load_log(folder / "log"), data.features, stored),
        Data(data.log, data.features, resident),
        data,
    )


def test_stored_samples_are_those_of_the_table_ordered_by_split(tmp_path):
    stored, _, data = mapped_data(tmp_path)
    expected = data.samples.sort_values("split", kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(stored.samples[expected.columns], expected, check_dtype=False)
    assert list(stored.samples["split"].cat.categories) == ["train", "validation", "test"]


def test_training_maps_the_columns_of_a_split_and_does_not_copy_them(tmp_path):
    stored, _, _ = mapped_data(tmp_path)
    for split in ("train", "validation", "test"):
        samples = sample_set(stored, split)
        for column in (samples.user, samples.item, samples.history_end, samples.labels):
            assert mapped._mapping_of(column.host_copy) is not None


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 30])
def test_the_result_is_the_same_whether_samples_are_mapped_or_in_memory(tmp_path, window):
    stored, resident, _ = mapped_data(tmp_path)
    recipe = Recipe(
        training={"batch_size": 16, "epochs": 3, "mba": 0.1, "shuffle_window": window},
        model={"embedding_dim": 4, "hidden": [8, 4], "attention_hidden": [8, 4]},
    )
    states = []
    for name, data in (("stored", stored), ("resident", resident)):
        run = RunParameters(workspace=str(tmp_path / name), processes=1)
        checkpoint, _ = train_experiment(Experiment("small", "din", RowOptions({}), recipe, (1,), run), data)
        states.append(checkpoint["states"][0])
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_parts_of_mapped_arrays_can_be_dropped_and_read_again(tmp_path):
    values = np.arange(1 << 20, dtype=np.int64)
    np.save(tmp_path / "values.npy", values)
    array = np.load(tmp_path / "values.npy", mmap_mode="c")[1000:]
    mapped.read_ahead(array, 5, 500_000)
    before = array.sum()
    mapped.drop(array, 0, len(array))
    assert array.sum() == before == values[1000:].sum()
    mapped.drop(values, 0, 10)  # in memory: nothing happens
    assert values[9] == 9
