"""What a batch says about its histories, by hand; what it refuses; and that it travels whole."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from support.batches import SCHEMA, random_batch, sharing_batches

from deep_interest.errors import InputError
from deep_interest.models.batch import Batch, ValueSetLookup
from deep_interest.models.registry import MODELS, build_model, model_config

LENGTHS = [3, 0, 1, 7, 2]
SMALL = {"embedding_dim": 4, "hidden": (5, 4), "attention_hidden": (6, 3)}


def codes(*values):
    return torch.tensor(values, dtype=torch.int32)


def batch_of(offsets, *, owner=None, **changes):
    """A batch of one field, whose behaviours have the codes 0, 1, 2, …"""
    samples = len(offsets) - 1 if owner is None else len(owner)
    whole = Batch(
        candidate={"item_id": codes(*range(samples))}, history={"item_id": codes(*range(offsets[-1]))}, offsets=torch.tensor(offsets),
        profile={}, context={}, labels=torch.zeros(samples), owner=None if owner is None else torch.tensor(owner),
    )  # fmt: skip
    return replace(whole, **changes)


def test_the_newest_behaviours_of_each_sample():
    batch = batch_of([0, 3, 3, 4, 9])
    newest = batch.newest(2)
    assert newest.offsets.tolist() == [0, 2, 2, 3, 5]
    assert newest.positions.tolist() == [1, 2, 3, 7, 8]
    assert batch.newest(100).positions.tolist() == list(range(9))


def test_the_newest_behaviours_of_samples_that_share_histories():
    newest = batch_of([0, 3, 3, 4, 9], owner=[0, 0, 2, 3]).newest(2)
    assert newest.offsets.tolist() == [0, 2, 4, 5, 7]
    assert newest.positions.tolist() == [1, 2, 1, 2, 3, 7, 8]


def test_the_samples_of_each_history():
    assert batch_of([0, 3, 3, 4]).samples_per_history.tolist() == [1, 1, 1]
    shared = batch_of([0, 3, 3, 4, 9], owner=[0, 0, 2]).samples_per_history
    assert shared.tolist() == [2, 0, 1, 0]
    assert shared.dtype == batch_of([0, 3]).samples_per_history.dtype == torch.int32


def test_pairs_and_what_each_sample_has():
    own, shared = batch_of([0, 3, 4]), batch_of([0, 3, 4], owner=[0, 0, 1])
    assert own.pairs is own.histories
    assert own.size == 2
    assert shared.size == 3
    assert shared.pairs.offsets.tolist() == [0, 3, 6, 7]
    vectors = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert own.per_sample(vectors) is vectors
    assert shared.per_sample(vectors).tolist() == [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]


def test_codes_by_group_and_the_values_of_value_sets():
    batch = random_batch(LENGTHS)
    groups = {
        "item": batch.candidate,
        "behavior": batch.history,
        "profile": batch.profile,
        "context": batch.context,
    }
    for group in groups:
        for field in SCHEMA.fields(group):
            assert batch.codes(group, field.name) is groups[group][field.name]
            assert batch.values(group, field.name) == (groups[group][field.name], None)
    value_sets = ValueSetLookup(torch.tensor([0, 1, 3, 3, 6]), codes(9, 4, 5, 6, 7, 8))
    values, runs = replace(
        batch, value_sets={"item_id": value_sets}, candidate={"item_id": codes(3, 0, 2, 1, 3)}
    ).values("item", "item_id")
    assert values.tolist() == [6, 7, 8, 9, 4, 5, 6, 7, 8]
    assert runs.offsets.tolist() == [0, 3, 4, 4, 6, 9]


@pytest.mark.parametrize("value_set", [4, -1])
def test_a_value_set_that_does_not_exist_is_named(value_set):
    value_sets = ValueSetLookup(torch.tensor([0, 1, 3, 3, 6]), codes(9, 4, 5, 6, 7, 8))
    with pytest.raises(
        InputError, match=rf"tags, value sets: code {value_set} at position 1 .* table of 4 rows"
    ):
        value_sets.of(codes(0, value_set), "tags")


HISTORY = {"item_id": codes(0, 1, 2, 3)}
CHANGES = [
    ({"labels": torch.zeros(3)}, "labels: found 3 values for 2 samples"),
    ({"candidate": {"item_id": codes(1)}}, "item_id: found 1 values for 2 samples"),
    ({"profile": {"gender": codes(1, 2, 1)}}, "gender: found 3 values for 2 samples"),
    ({"context": {"hour": codes(1)}}, "hour: found 1 values for 2 samples"),
    ({"history": HISTORY | {"category": codes(1, 2, 3)}}, "category: found 3 values for 4 behaviours"),
    ({"negatives": {"item_id": codes(1, 2, 3)}}, "negatives, item_id: found 3 values for 4 behaviours"),
    ({"offsets": torch.tensor([0, 3, 5])}, "offsets of the histories: .* 0 to 5"),
    ({"owner": torch.tensor([0, 0, 1])}, "labels: found 2 values for 3 samples"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message for _, message in CHANGES])
def test_parts_that_do_not_fit_together_are_named(change, message):
    with pytest.raises(InputError, match=message):
        _ = replace(batch_of([0, 3, 4]), **change).histories


def test_a_batch_without_behaviour_fields_takes_its_length_from_the_offsets():
    assert batch_of([0, 3, 4], history={}).histories.lengths.tolist() == [3, 1]


@pytest.mark.parametrize("owner", [None, [0, 0, 1, 2, 2, 3]])
def test_every_tensor_is_sent_and_the_host_remembers_its_values(owner, monkeypatch):
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda tensor: tensor
    )  # which a machine without a GPU cannot do
    batch = random_batch(LENGTHS) if owner is None else sharing_batches(LENGTHS, owner)[0]
    batch.negative_vectors = torch.zeros(13, 8)
    value_sets = {"tags": ValueSetLookup(torch.tensor([0, 1]), codes(3))}
    there = batch.to_device(torch.device("meta"), value_sets)
    assert there.value_sets is value_sets
    assert there.negative_vectors is None
    groups = ("candidate", "history", "profile", "context", "negatives")
    for field in fields(Batch):
        here, sent = getattr(batch, field.name), getattr(there, field.name)
        if field.name in groups:
            assert here.keys() == sent.keys()
            pairs = [(here[name], sent[name]) for name in here]
            assert pairs
        elif field.name in ("offsets", "labels", "owner"):
            pairs = [] if here is None else [(here, sent)]
            assert (sent is None) == (here is None)
        else:
            continue
        for one, other in pairs:
            assert other.device.type == "meta"
            np.testing.assert_array_equal(other.host_copy, one.numpy())


TRAINED = [key for key, row in MODELS.items() if not row.closed_form]
OPTIONS = {"bst": {"blocks": 2}, "dien": {"aux_weight": 1.0}, "din_positions": {"positions": 3}, "dien_infonce": {
    "aux_weight": 1.0, "aux_contrast": "infonce", "aux_score": "net"}, "base_mba": {"batch_norm": True}}  # fmt: skip
ON_THE_BATCH = [(key, OPTIONS.get(key, {})) for key in TRAINED] + [("bst", {"output": "candidate"})]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("key", "options"), ON_THE_BATCH, ids=str)
def test_what_a_model_makes_is_on_the_batchs_device(key, options, shared):
    """With ``meta`` as the default, a tensor whose device nobody names would not go together with those of the batch."""
    torch.manual_seed(0)
    model = build_model(key, model_config(key, options, common=SMALL), SCHEMA).double().eval()
    batch, again = (sharing_batches(LENGTHS, [0, 0, 1, 2, 3, 3, 4])[0 if shared else 1] for _ in range(2))
    expected = model(batch)
    with torch.device("meta"):
        found = model(again)
    assert torch.equal(found.logits, expected.logits)
    assert found.auxiliary_loss is None or torch.equal(found.auxiliary_loss, expected.auxiliary_loss)
