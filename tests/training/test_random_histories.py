"""Random histories: what the samples of a user see in training when it is a random part of the user's other behaviours."""

import numpy as np
import pandas as pd
import pytest
import torch
from support.training import small_data

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.random_histories import RandomHistories

LENGTHS = [0, 5, 1, 7, 3, 12, 2]  # behaviours of each user; user 0 is the unknown one
ITEMS = sum(LENGTHS) + 1


def rated_samples(split="train", *, max_len=100, behavior=("item_id", "rating")):
    """Every behaviour is a sample of its item; all items differ, so that an item names its behaviour."""
    offsets = np.append(0, np.cumsum(LENGTHS)).astype(np.int64)
    item = np.arange(1, ITEMS, dtype=np.int32)
    rating = (item % 5 + 1).astype(np.int32)
    user = np.repeat(np.arange(len(LENGTHS)), LENGTHS).astype(np.int32)
    fields = {"item_id": Field(name="item_id", size=ITEMS), "rating": Field(name="rating", size=7)}
    fields["position"] = Field(name="position", size=9, derived=True)
    schema = FeatureSchema(item=(fields["item_id"],), behavior=tuple(fields[name] for name in behavior))
    features = FeatureTables(schema, {"item_id": np.arange(ITEMS, dtype=np.int32)}, {})
    log = BehaviorLog(offsets, {"item_id": item, "rating": rating})
    frame = pd.DataFrame({
        "user": user, "item": item, "label": (rating >= 4).astype(np.int8), "time": np.arange(len(item)),
        "history_end": (np.arange(len(item)) - offsets[user]).astype(np.int32),
        "split": np.where(user < 6, "train", "validation"),
    })  # fmt: skip
    store = FeatureStore.build(log, features, torch.device("cpu"))
    return SampleSet.build(store, frame, split, max_len=max_len)


def rows_by_user(samples):
    return torch.arange(len(samples))


def seen(batch):
    """Yield the candidate and the history of each sample, as items."""
    for sample, item in enumerate(batch.candidate["item_id"].tolist()):
        history = sample if batch.owner is None else int(batch.owner[sample])
        begin, end = batch.offsets[history : history + 2].tolist()
        yield item, batch.history["item_id"][begin:end].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_a_sample_sees_other_behaviours_of_its_user_and_never_its_own(seed):
    samples, torch_seed = rated_samples(), torch.manual_seed(seed)
    assert torch_seed is not None
    batch = RandomHistories.build(samples).batch(rows_by_user(samples))
    user_of = dict(zip(samples.item.tolist(), samples.user.tolist(), strict=True))
    targets, shown = set(), set()
    for item, history in seen(batch):
        assert item not in history
        assert history == sorted(set(history))  # in the order of the log
        assert {user_of[other] for other in history} <= {user_of[item]}
        targets.add(item)
        shown.update(history)
    assert not targets & shown  # a behaviour is a target or part of a history
    users = {user_of[item] for item in targets}
    assert targets | shown == {item for item, user in user_of.items() if user in users}
    ratings = batch.history["rating"].tolist()
    assert ratings == [item % 5 + 1 for item in batch.history["item_id"].tolist()]
    assert batch.labels.tolist() == [float(item % 5 + 1 >= 4) for item in batch.candidate["item_id"].tolist()]


def test_later_behaviours_are_seen_too_and_other_ones_in_each_epoch():
    samples, later, drawn = rated_samples(), False, set()
    histories = RandomHistories.build(samples)
    torch.manual_seed(0)
    for _ in range(20):
        for item, history in seen(histories.batch(rows_by_user(samples))):
            later = later or any(other > item for other in history)
            drawn.add((item, tuple(history)))
    assert later
    assert len(drawn) > 100


def test_a_user_counts_in_proportion_to_the_samples_of_the_batch():
    samples = rated_samples()
    torch.manual_seed(3)
    batch = RandomHistories.build(samples).batch(rows_by_user(samples))
    user_of = dict(zip(samples.item.tolist(), samples.user.tolist(), strict=True))
    total = {}
    for item, weight in zip(batch.candidate["item_id"].tolist(), batch.weights.tolist(), strict=True):
        total[user_of[item]] = total.get(user_of[item], 0) + weight
    per_sample = {user: weight / LENGTHS[user] for user, weight in total.items()}
    assert max(per_sample.values()) == pytest.approx(min(per_sample.values()), rel=1e-5)
    assert batch.weights.mean().item() == pytest.approx(1)


def test_the_expected_share_of_a_history_is_two_thirds_of_the_behaviours():
    samples = rated_samples()
    histories, lengths = RandomHistories.build(samples), []
    torch.manual_seed(0)
    rows = torch.from_numpy(np.flatnonzero(samples.user.numpy() == 5))
    for _ in range(2000):
        batch = histories.batch(rows)
        lengths.append(len(batch.history["item_id"]) / 12)
    assert np.mean(lengths) == pytest.approx(
        2 / 3, abs=0.02
    )  # E[sqrt(u)]; a little less, as one target is kept


def test_a_history_has_at_most_the_newest_max_len_of_its_behaviours():
    samples = rated_samples(max_len=3)
    torch.manual_seed(1)
    batch = RandomHistories.build(samples).batch(rows_by_user(samples))
    assert max(len(history) for _, history in seen(batch)) == 3
    assert len(batch.history["item_id"]) == int(batch.offsets[-1])


def test_one_sample_alone_keeps_its_target():
    samples = rated_samples()
    histories = RandomHistories.build(samples)
    for seed in range(10):
        torch.manual_seed(seed)
        batch = histories.batch(torch.tensor([5]))  # the only behaviour of user 2
        assert batch.candidate["item_id"].tolist() == [6]
        assert batch.offsets.tolist() == [0, 0]


def test_samples_without_a_behaviour_of_their_own_are_refused():
    data = small_data()
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    samples = SampleSet.build(store, data.samples, "train", max_len=10)
    with pytest.raises(InputError, match="histories: random needs one training sample for each behaviour"):
        RandomHistories.build(samples)


def test_fields_that_depend_on_the_order_of_behaviours_are_refused():
    samples = rated_samples(behavior=("item_id", "position"))
    with pytest.raises(InputError, match="histories: random cannot be used with position"):
        RandomHistories.build(samples)


def make_fit(folder, **options):
    train, validation = rated_samples(), rated_samples("validation")
    torch.manual_seed(0)
    config = model_config(
        "din", {}, common={"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}
    )
    settings = TrainingOptions(
        batch_size=9, epochs=3, patience=9, histories="random", selection="logloss", **options
    )
    return Fit(
        label="test", model=build_model("din", config, train.store.schema), train=train, validation=validation, options=settings,
        seed=4, state_file=folder / "state.pt", fingerprint="f", checkpoint_seconds=0,
    )  # fmt: skip


@pytest.mark.slow
def test_an_interrupted_fit_resumes_to_the_same_parameters(tmp_path):
    fit = make_fit(tmp_path / "whole")
    fit.run()
    expected = fit.model.state_dict()
    broken, steps = make_fit(tmp_path / "broken"), 0

    def interrupted(rows, step=broken.train_step):
        nonlocal steps
        steps += 1
        if steps == 6:
            raise KeyboardInterrupt
        return step(rows)

    broken.train_step = interrupted
    with pytest.raises(KeyboardInterrupt):
        broken.run()
    resumed = make_fit(tmp_path / "broken")
    resumed.run()
    for name, values in resumed.model.state_dict().items():
        assert torch.equal(values, expected[name]), name


def test_validation_samples_see_the_behaviours_before_them(tmp_path):
    batch = make_fit(tmp_path).validation.batch(torch.arange(2))
    assert list(seen(batch)) == [(29, []), (30, [29])]
