from itertools import pairwise

import numpy as np
import pytest
import torch
from support.training import CATEGORIES, ITEMS, TAGS, sample_set, small_data, with_tags

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.embeddings import Table
from deep_interest.training import occurrences
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.history import LogTensors
from deep_interest.training.occurrences import samples_with_each_id
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer


def by_hand(samples, field, groups, size):
    """Materialise each sample's ids and count every id once."""
    counts = np.zeros(size, np.int64)
    store = samples.store
    for row in range(len(samples)):
        user, end = int(samples.user[row]), int(samples.history_end[row])
        start, ids = int(store.offsets[user]), set()
        if "item" in groups:
            ids.add(int(store.items[field][samples.item[row]]))
        if "behavior" in groups:
            ids |= set(store.history[field][start + max(0, end - samples.max_len) : start + end].tolist())
        for code in ids:
            counts[code] += 1
    return counts


@pytest.mark.parametrize("max_len", [1, 3, 100])
@pytest.mark.parametrize("groups", [("item", "behavior"), ("item",), ("behavior",)])
@pytest.mark.parametrize(("field", "size"), [("item_id", ITEMS + 1), ("category", CATEGORIES + 1)])
def test_a_sample_counts_once_for_every_id_it_holds(field, size, groups, max_len):
    samples = sample_set(small_data(), max_len=max_len)
    np.testing.assert_array_equal(
        samples_with_each_id(samples, field, groups, size), by_hand(samples, field, groups, size)
    )


@pytest.fixture(params=[1, 17, 1 << 22])
def at_once(request, monkeypatch):
    """Behaviours that are gone through at once: one user's, some users', all."""
    monkeypatch.setattr(occurrences, "BLOCK_SIZE", request.param)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("max_len", [1, 3, 100])
@pytest.mark.parametrize("groups", [("item", "behavior"), ("item",), ("behavior",)])
def test_a_sample_counts_once_for_every_value_in_its_value_sets(groups, max_len):
    samples = sample_set(with_tags(small_data()), max_len=max_len)
    counts = np.zeros(6, np.int64)
    for row in range(len(samples)):
        user, end = int(samples.user[row]), int(samples.history_end[row])
        start = int(samples.store.offsets[user])
        window = samples.store.history["tags"][start + max(0, end - max_len) : start + end].tolist()
        value_sets = window * ("behavior" in groups)
        value_sets += [int(samples.store.items["tags"][samples.item[row]])] * ("item" in groups)
        for code in {code for value_set in value_sets for code in TAGS[value_set]}:
            counts[code] += 1
    assert counts.min() > 0
    np.testing.assert_array_equal(samples_with_each_id(samples, "tags", groups, 6), counts)


def test_a_batch_counts_every_value_of_its_value_sets_and_those_of_a_shared_history_for_each_sample():
    samples = sample_set(with_tags(small_data()))
    batch = samples.batch(
        torch.tensor([0, 0, 1, 2, 2, 2, 50])
    )  # neighbours that are alike share their history
    assert batch.owner is not None
    counts = np.zeros(6)
    for row in (0, 0, 1, 2, 2, 2, 50):
        user, end = int(samples.user[row]), int(samples.history_end[row])
        start = int(samples.store.offsets[user])
        window = samples.store.history["tags"][start : start + end].tolist()
        for value_set in [*window, int(samples.store.items["tags"][samples.item[row]])]:
            counts[TAGS[value_set]] += 1
    table = Table(Field(name="tags", size=6), 2, groups=("item", "behavior"), std=1.0)
    penalty = Regularizer(table, TrainingOptions(difacto=0.5), None)
    np.testing.assert_allclose(penalty(torch.arange(6), batch), 0.5 * counts)


def test_a_model_of_a_smaller_vocabulary_does_not_see_newer_values():
    samples = sample_set(with_tags(small_data()))
    known = samples.store.schema.item[2].model_copy(update={"size": 4})
    fields = (*samples.store.schema.item[:2], known)
    older = samples.with_vocabularies_of(FeatureSchema(item=fields, behavior=fields))
    offsets, values = (part.tolist() for part in older.store.value_sets["tags"])
    found = [values[begin:end] for begin, end in pairwise(offsets)]
    assert found == [[0], [1], [1, 2], [2], [3]]
    assert older.store.history["tags"] is samples.store.history["tags"]


def test_ids_and_users_by_the_million_do_not_run_over():
    """(users × ids × behaviours) is beyond 64 bits."""
    users, ids = 3_000_000, 2_000_000_000
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.arange(users + 1)])  # one behaviour each
    codes = torch.full((users,), ids - 1, dtype=torch.int32)
    store = FeatureStore(None, LogTensors(offsets, {"item_id": codes}), {}, {})
    asked = torch.tensor([users, users, 1], dtype=torch.int32)
    ends = torch.tensor([1, 0, 1], dtype=torch.int32)
    samples = SampleSet(store, 100, asked, asked, ends, torch.zeros(3), {})
    held = occurrences._in_history(samples, "item_id", np.arange(3), np.array([ids - 1, ids - 1, ids - 2]))
    assert held.tolist() == [True, False, False]
