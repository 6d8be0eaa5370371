"""Fields of a behaviour that depend on the sample: time since, and position."""

import numpy as np
import pandas as pd
import pytest
import torch

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.ops.jagged import Jagged
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.derived_fields import gap_codes, position_codes

ITEM = (Field(name="item_id", size=9),)
OWN = (Field(name="gap", size=8, derived=True), Field(name="position", size=4, derived=True))
SCHEMA = FeatureSchema(item=ITEM, behavior=(*ITEM, *OWN))


def store(times, schema=SCHEMA):
    """One user with behaviours at some times."""
    count = len(times)
    log = BehaviorLog(
        np.array([0, 0, count]), {"item_id": np.arange(1, count + 1, dtype=np.int32)}, np.array(times)
    )
    features = FeatureTables(schema, {"item_id": np.arange(9, dtype=np.int32)}, {})
    return FeatureStore.build(log, features, torch.device("cpu"))


def samples(times, ends, event_times, *, max_len=100):
    count = len(ends)
    frame = pd.DataFrame(
        {"user": np.int32(1), "item": np.int32(1), "label": np.int8(0), "time": event_times, "history_end": np.int32(ends), "split": "train"},
        index=range(count),
    )  # fmt: skip
    return SampleSet.build(store(times), frame, "train", max_len=max_len)


def test_a_gap_is_coded_by_its_power_of_two():
    gaps = torch.tensor([0, 1, 2, 3, 4, 7, 8, 63, 64, 10**12])
    assert gap_codes(gaps, 60).tolist() == [1, 2, 3, 3, 4, 4, 5, 7, 8, 41]
    assert gap_codes(gaps, 8).tolist() == [1, 2, 3, 3, 4, 4, 5, 7, 7, 7]
    assert gap_codes(torch.tensor([-5]), 8).tolist() == [1]


def test_a_position_counts_later_behaviours():
    assert position_codes(Jagged(torch.tensor([0, 5, 5, 6])), 4).tolist() == [3, 3, 3, 2, 1, 1]


def test_the_gap_is_the_time_from_the_behaviour_to_the_samples_event():
    """Behaviours at 10, 20 and 24; events at 25 (after all) and at 21 (after the first two)."""
    batch = samples([10, 20, 24], [3, 2], [25, 21]).batch(torch.arange(2))
    assert batch.history["gap"].tolist() == [5, 4, 2, 5, 2]  # 15, 5, 1; 11, 1
    assert batch.history["position"].tolist() == [3, 2, 1, 2, 1]
    assert list(batch.history) == ["item_id", "gap", "position"]
    newest = samples([10, 20, 24], [3], [25], max_len=2).batch(torch.arange(1))
    assert newest.history["gap"].tolist() == [4, 2]


def test_samples_share_a_history_only_if_their_times_are_equal():
    batch = samples([10, 20], [2, 2, 2], [25, 25, 40]).batch(torch.arange(3))
    assert batch.owner.tolist() == [0, 0, 1]
    assert batch.history["gap"].tolist() == [5, 4, 6, 6]  # 15, 5 twice; 30, 20


@pytest.mark.parametrize("engine", ["plain", "compiled"])
def test_both_engines_agree(engine, monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_ENGINE", engine)
    batch = samples([10, 20], [2, 2, 1], [25, 40, 40]).batch(torch.tensor([2, 0, 1]))
    assert batch.owner is None
    assert batch.history["gap"].tolist() == [6, 5, 4, 6, 6]  # 30; 15, 5; 30, 20


def test_a_future_behaviour_changes_nothing_before_it():
    before = samples([10, 20, 24], [2], [21]).batch(torch.arange(1))
    after = samples([10, 20, 22], [2], [21]).batch(torch.arange(1))
    for name, codes in before.history.items():
        assert torch.equal(codes, after.history[name])
