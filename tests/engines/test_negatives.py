"""The function of a partition, which DuckDB's path and Spark's workers call."""

import numpy as np
import pyarrow as pa
import pytest

from deep_interest.engines.negatives import NO_TARGET, PairWithNegatives, Pool
from deep_interest.engines.summary import SummaryCounts
from deep_interest.logs.samples import TEST, TRAIN

LOG = {
    "user": np.array([2, 1, 1, 2], np.int32),
    "item": np.array([5, 1, 2, 6], np.int32),
    "time": np.array([3, 4, 5, 2]),
    "position": np.array([1, 0, 1, 0], np.int32),
    "history_end": np.array([1, 0, 1, 0], np.int32),
    "split": np.array([TEST, NO_TARGET, TRAIN, NO_TARGET], np.int8),
}


def test_each_target_becomes_a_pair_in_the_order_of_users_and_positions():
    pair = PairWithNegatives(Pool(np.array([1, 2, 3])), Pool(np.array([5, 6, 7])), seed=0)
    assert pair(pa.table(LOG)).to_pydict() == {
        "user": [1, 1, 2, 2], "item": [2, 3, 5, 7], "label": [1, 0, 1, 0], "time": [5, 5, 3, 3], "history_end": [1, 1, 1, 1],
        "split": ["train", "train", "test", "test"],
    }  # fmt: skip


def test_targets_without_a_possible_negative_are_left_out():
    pair = PairWithNegatives(Pool(np.array([1, 2])), Pool(np.array([5, 6, 7])), seed=0)
    assert pair(pa.table(LOG))["user"].to_pylist() == [2, 2]


@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_the_samples_do_not_depend_on_the_order_of_the_log(shuffle):
    rng = np.random.default_rng(shuffle)
    size = 300
    log = {
        "user": np.repeat(np.arange(1, 31), 10), "item": np.tile(np.arange(1, 11), 30), "time": np.tile(np.arange(10), 30),
        "position": np.tile(np.arange(10), 30), "history_end": np.tile(np.arange(10), 30),
        "split": rng.integers(-1, 3, size).astype(np.int8),
    }  # fmt: skip
    pool = Pool(np.arange(1, 60), np.arange(1, 60))
    pair = PairWithNegatives(pool, pool, seed=4)
    order = rng.permutation(size)
    assert pair(pa.table({name: values[order] for name, values in log.items()})).equals(pair(pa.table(log)))


def test_the_summary_of_two_partitions_counts_users_and_items_once():
    counts = SummaryCounts({"user": 4, "item": 5})
    for user in (1, 3):
        samples = {"user": [user] * 2, "item": [2, 3], "label": [1, 0], "history_end": [user, 4]}
        counts.add(pa.table(samples), np.array([TRAIN, TRAIN]))
    unknown = {
        "unknown_users": ("user", np.array([True, False, False, True])), "unknown_items": ("item", np.zeros(5, bool)),
        "unknown_category": ("item", np.array([True, False, True, False, False])),
    }  # fmt: skip
    table = counts.table({"short users": 7}, unknown=unknown, users=2, items=4, behaviors=20).set_index(
        "split"
    )
    train = table.loc["train"]
    assert train[["rows", "positives", "users", "items", "max_history"]].tolist() == [4, 2, 2, 2, 4]
    assert train[["mean_history", "unknown_users", "unknown_items", "unknown_category"]].tolist() == [
        3.0,
        0.5,
        0.0,
        0.5,
    ]
    assert table.loc["all", ["users", "items", "behaviors"]].tolist() == [2, 4, 20]
    assert table.loc["left out", ["rows", "reason"]].tolist() == [7, "short users"]
    assert table.loc["test", "rows"] == 0
