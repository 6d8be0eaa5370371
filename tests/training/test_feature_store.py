"""The resident data: their types, what is shared with the log, drawn negatives, and what an earlier schema knows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from support.training import CATEGORIES, TAGS, sample_set, small_data, with_tags

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.training.content import Data
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.dropout import drop_behaviors
from deep_interest.training.history import LogTensors

GENDERS, HOURS = 3, 5


def data_with_users(*, tags: bool = False) -> Data:
    """The small data with a profile and a context field."""
    data = with_tags(small_data()) if tags else small_data()
    rng = np.random.default_rng(0)
    schema = data.features.schema.model_copy(
        update={
            "profile": (Field(name="gender", size=GENDERS),),
            "context": (Field(name="hour", size=HOURS),),
        }
    )
    users = {"gender": rng.integers(0, GENDERS, 61).astype(np.int32)}
    samples = data.samples.assign(hour=rng.integers(0, HOURS, len(data.samples)).astype(np.int32))
    return replace(data, samples=samples, features=replace(data.features, schema=schema, users=users))


def test_a_store_on_the_cpu_reads_the_logs_own_memory():
    data = data_with_users(tags=True)
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    assert store.schema is data.features.schema
    assert store.on_host is store
    for tensors, arrays in (
        (store.history, data.log.fields),
        (store.items, data.features.items),
        (store.users, data.features.users),
    ):
        assert tensors.keys() == arrays.keys()
        for name, tensor in tensors.items():
            assert np.shares_memory(tensor.numpy(), arrays[name])
    assert np.shares_memory(store.offsets.numpy(), data.log.offsets)
    assert store.value_sets["tags"].offsets.tolist() == np.cumsum([0, *map(len, TAGS)]).tolist()
    assert store.value_sets["tags"].values.tolist() == [code for tags in TAGS for code in tags]


@pytest.mark.parametrize("tags", [False, True])
def test_a_batch_has_every_group_of_its_samples(tags):
    data = data_with_users(tags=tags)
    samples = sample_set(data)
    rows = torch.tensor([5, 100, 3, 3])
    batch, frame = samples.batch(rows), data.samples[data.samples["split"] == "train"].iloc[rows.numpy()]
    users, items = frame["user"].to_numpy(), frame["item"].to_numpy()
    np.testing.assert_array_equal(batch.profile["gender"], data.features.users["gender"][users])
    np.testing.assert_array_equal(batch.context["hour"], frame["hour"])
    for name, codes in data.features.items.items():
        np.testing.assert_array_equal(batch.candidate[name], codes[items])
    np.testing.assert_array_equal(batch.labels, frame["label"])
    assert batch.labels.dtype == torch.float32
    assert set(batch.value_sets) == ({"tags"} if tags else set())
    assert {name: codes.tolist() for name, codes in samples.candidates().items()} == {
        name: codes[samples.item.numpy()].tolist() for name, codes in data.features.items.items()
    }


@pytest.mark.parametrize("tags", [False, True])
def test_samples_come_back_from_a_device_whole(tags):
    """meta represents a device whose values only the host knows."""
    data = data_with_users(tags=tags)
    here, there = sample_set(data, max_len=7), sample_set(data, device="meta", max_len=7)
    assert here.on_host is here
    assert there.labels.device.type == there.store.users["gender"].device.type == "meta"
    back = there.on_host
    assert back.max_len == 7
    for name in ("user", "item", "history_end", "labels"):
        assert torch.equal(getattr(back, name), getattr(here, name)), name
        assert getattr(back, name).dtype == getattr(here, name).dtype
    assert torch.equal(back.context["hour"], here.context["hour"])
    for group in ("history", "items", "users"):
        for name, codes in getattr(here.store, group).items():
            assert torch.equal(getattr(back.store, group)[name], codes), (group, name)
    assert torch.equal(back.store.offsets, here.store.offsets)
    for name, (offsets, values) in here.store.value_sets.items():
        assert torch.equal(back.store.value_sets[name].offsets, offsets)
        assert torch.equal(back.store.value_sets[name].values, values)
    assert torch.equal(there.requests, here.requests)


def store_of(item_ids, *, category=None) -> FeatureStore:
    codes = {"item_id": torch.tensor(item_ids, dtype=torch.int32)}
    if category is not None:
        codes["category"] = torch.tensor(category, dtype=torch.int32)
    return FeatureStore(None, LogTensors(torch.tensor([0]), {}), codes, {})


def test_items_without_a_code_of_their_own_are_never_drawn():
    """Items 0, 2 and 4 share the unknown's code; of the others, 1 and 3, the one that was not clicked is drawn."""
    store = store_of([0, 2, 0, 1, 0], category=[0, 7, 8, 9, 8])
    history = {"item_id": torch.tensor([1, 2, 1, 2] * 50), "category": torch.zeros(200, dtype=torch.int32)}
    drawn = store.sample_negatives(history)
    assert drawn["item_id"].tolist() == [2, 1, 2, 1] * 50
    assert drawn["category"].tolist() == [7, 9, 7, 9] * 50
    assert drawn["item_id"].dtype == torch.int32


def test_negatives_of_an_unknown_item_are_uniform_over_all_known_items_but_the_last():
    torch.manual_seed(0)
    drawn = store_of([0, 1, 2, 3]).sample_negatives({"item_id": torch.zeros(3000, dtype=torch.int32)})[
        "item_id"
    ]
    counts = np.bincount(drawn.numpy(), minlength=4)
    assert counts[0] == counts[3] == 0
    assert np.abs(counts[1:3] - 1500).max() < 150


def test_two_items_are_enough_to_draw_from_and_one_is_not():
    history = {"item_id": torch.tensor([1, 1], dtype=torch.int32)}
    assert store_of([0, 1, 2]).sample_negatives(history)["item_id"].tolist() == [2, 2]
    with pytest.raises(InputError, match=r"^items: found one item, but the auxiliary loss needs"):
        store_of([0, 1]).sample_negatives(history)


def test_without_items_an_item_is_drawn_again_ten_times_at_most(monkeypatch):
    store, draws = store_of([0, 0, 0], category=[0, 1, 2]), []

    def first_item(low, high, shape, device):
        draws.append((low, high, tuple(shape), device))
        return torch.ones(shape, dtype=torch.int64)

    monkeypatch.setattr(torch, "randint", first_item)
    drawn = store.sample_negatives({"category": torch.tensor([1, 2], dtype=torch.int32)})
    assert drawn["category"].tolist() == [1, 1]
    assert draws == [(1, 3, (2,), torch.device("cpu"))] * 11


def test_without_items_an_item_that_differs_in_one_field_is_another():
    store = replace(
        store_of([0]), items={"category": torch.tensor([0, 1, 1, 1]), "shop": torch.tensor([0, 5, 6, 6])}
    )
    torch.manual_seed(0)
    history = {"category": torch.ones(500, dtype=torch.int64), "shop": torch.full((500,), 5)}
    drawn = store.sample_negatives(history)
    assert set(drawn["shop"].tolist()) == {6}
    assert set(drawn["category"].tolist()) == {1}


def test_what_an_earlier_schema_does_not_know_is_unknown_in_every_group():
    samples = sample_set(data_with_users(tags=True))
    ours = samples.store.schema
    sizes = {"item_id": 31, "category": CATEGORIES, "tags": 4, "gender": 2, "hour": 3}
    older = FeatureSchema(**{
        group: tuple(field.model_copy(update={"size": sizes[field.name]}) for field in ours.fields(group))
        for group in ("item", "behavior", "profile", "context")
    })  # fmt: skip
    known = samples.with_vocabularies_of(older)
    assert known.store.schema is older

    def cut(codes, name):
        return [code if code < sizes[name] else 0 for code in codes.tolist()]

    for group in ("history", "items", "users"):
        for name, codes in getattr(samples.store, group).items():
            if name != "tags":
                assert getattr(known.store, group)[name].tolist() == cut(codes, name), (group, name)
    assert known.context["hour"].tolist() == cut(samples.context["hour"], "hour")
    assert max(known.store.value_sets["tags"].values.tolist()) == 3
    same = samples.with_vocabularies_of(ours)
    assert same.store.items["item_id"] is samples.store.items["item_id"]  # nothing to cut, nothing copied


def test_an_earlier_schema_of_other_fields_is_refused_with_both_lists():
    samples = sample_set(small_data())
    schema = FeatureSchema(item=samples.store.schema.item[:1], behavior=samples.store.schema.behavior[:1])
    message = "^features: the model has the fields item_id, the configuration item_id, category; restore "
    with pytest.raises(InputError, match=message):
        samples.with_vocabularies_of(schema)


def test_the_arrays_of_the_data_by_name():
    data = data_with_users(tags=True)
    arrays = data.arrays()
    assert set(arrays) == {
        "samples.user", "samples.item", "samples.label", "samples.time", "samples.history_end", "samples.hour", "samples.split",
        "log.item_id", "log.category", "log.tags", "log.", "items.item_id", "items.category", "items.tags", "users.gender", "value_sets.tags",
        "value_set_offsets.tags",
    }  # fmt: skip
    assert arrays["samples.split"].dtype == np.int8
    codes = {"train": 0, "validation": 1, "test": 2}
    assert arrays["samples.split"].tolist() == [codes[split] for split in data.samples["split"]]
    assert arrays["log."] is data.log.offsets
    tags = data.features.value_sets["tags"]
    assert arrays["value_sets.tags"] is tags.values
    assert arrays["value_set_offsets.tags"] is tags.offsets


def test_the_fingerprint_depends_on_shapes():
    data = small_data()
    shapes = [(6,), (2, 3), (3, 2)]
    features = [replace(data.features, users={"gender": np.zeros(shape, np.int32)}) for shape in shapes]
    assert len({replace(data, features=one).fingerprint() for one in features}) == 3


@pytest.mark.parametrize("change", ["schema", "type", "name", "value"])
def test_the_fingerprint_follows_everything(change):
    data = small_data()
    fingerprint, log, features = data.fingerprint(), data.log, data.features
    assert len(fingerprint) == 32
    assert fingerprint == small_data().fingerprint()
    item_ids = log.fields["item_id"]
    other = {
        "type": item_ids.astype(np.int64),
        "value": np.where(item_ids == 3, 4, item_ids).astype(np.int32),
    }
    if change == "schema":
        schema = features.schema.model_copy(update={"context": (Field(name="hour", size=2),)})
        features = FeatureTables(schema, features.items, features.users)
    else:
        renamed = {"shop": item_ids} | {
            name: codes for name, codes in log.fields.items() if name != "item_id"
        }
        log = BehaviorLog(
            log.offsets, renamed if change == "name" else log.fields | {"item_id": other[change]}
        )
    assert replace(data, log=log, features=features).fingerprint() != fingerprint


def test_dropping_behaviours_keeps_the_negatives_next_to_theirs(monkeypatch):
    samples = sample_set(with_tags(small_data()))
    batch = samples.batch(torch.arange(40), negatives=("item_id",))
    total = batch.histories.total
    uniform = torch.arange(total) / 100
    monkeypatch.setattr(torch, "rand", lambda size: uniform[:size])
    kept = drop_behaviors(batch, 0.5)
    rows = np.arange(50, total)  # a draw that equals the rate keeps its behaviour
    assert len(rows) > 10
    for name, codes in batch.history.items():
        assert torch.equal(kept.history[name], codes[rows]), name
    assert torch.equal(kept.negatives["item_id"], batch.negatives["item_id"][rows])
    lengths = [int(((rows >= a) & (rows < b)).sum()) for a, b in pairwise(batch.offsets.tolist())]
    assert kept.histories.lengths.tolist() == lengths
    assert kept.labels is batch.labels
    assert kept.negative_vectors is None
    assert drop_behaviors(replace(batch, negatives=None), 0.5).negatives is None


def test_a_split_is_built_of_its_own_rows_alone():
    data = data_with_users()
    built = SampleSet.build(
        FeatureStore.build(data.log, data.features, torch.device("cpu")), data.samples, "test", max_len=3
    )
    frame = data.samples[data.samples["split"] == "test"]
    assert built.max_len == 3
    for name, column in (
        ("user", "user"),
        ("item", "item"),
        ("history_end", "history_end"),
        ("labels", "label"),
    ):
        np.testing.assert_array_equal(getattr(built, name), frame[column])
    assert list(built.context) == ["hour"]
