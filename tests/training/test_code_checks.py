"""Codes of the log, the features and the samples are checked when they are built, on any device."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.training import CATEGORIES, ITEMS, sample_set, small_data, with_tags

from deep_interest.errors import InputError
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.evaluation import predict

DEVICES = ["cpu", "meta"]  # meta represents a device whose values the host cannot see
USERS = 60


def changed(array, code, row=5):
    array = array.copy()
    array[row] = code
    return array


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("code", [ITEMS + 1, 50_000, 400_000_000, -1])
def test_a_code_of_the_log_outside_its_table_is_named(code, device):
    data = small_data()
    fields = data.log.fields | {"item_id": changed(data.log.fields["item_id"], code)}
    message = f"behavior field item_id: code {code} at position 5 .* {ITEMS + 1} rows"
    with pytest.raises(InputError, match=message):
        sample_set(replace(data, log=replace(data.log, fields=fields)), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("code", [CATEGORIES + 1, -1])
def test_a_code_of_an_item_outside_its_table_is_named(code, device):
    data = small_data()
    items = data.features.items | {"category": changed(data.features.items["category"], code)}
    with pytest.raises(InputError, match=f"item field category: code {code} at position 5"):
        sample_set(replace(data, features=replace(data.features, items=items)), device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("user", USERS + 1, f"samples.user: code {USERS + 1} .* {USERS + 1} rows"),
        ("user", -1, "samples.user: code -1"),
        ("item", ITEMS + 1, f"samples.item: code {ITEMS + 1}"),
        ("item", 400_000_000, "samples.item: code 400000000"),
        (
            "history_end",
            10_000,
            r"samples.history_end: sample 5 has 10000 behaviours before it, but user 1 has \d+",
        ),
        ("history_end", -1, "samples.history_end: sample 5 has -1"),
    ],
)
def test_a_sample_outside_the_log_is_named(column, value, message, device):
    data = small_data()
    samples = data.samples.assign(**{column: changed(data.samples[column].to_numpy(), value)})
    with pytest.raises(InputError, match=message):
        sample_set(replace(data, samples=samples), device=device)


def test_offsets_of_the_log_do_not_decrease():
    data = small_data()
    wrong = data.log.offsets.copy()
    wrong[3] = wrong[6] + 1
    with pytest.raises(
        InputError, match=r"offsets of the log, field item_id: offset .* at position 4 is smaller"
    ):
        sample_set(replace(data, log=replace(data.log, offsets=wrong)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("value_sets", "message"),
    [
        (ValueSets(np.array([0, 1, 2, 3, 4, 5]), np.array([0, 1, 2, 3, 6], np.int32)), "tags: code 6"),
        (ValueSets(np.array([0, 1, 2, 3, 4, 5]), np.array([0, 1, 2, 3, -1], np.int32)), "tags: code -1"),
        (
            ValueSets(np.array([0, 2, 1, 3, 4, 5]), np.array([0, 1, 2, 3, 4], np.int32)),
            "smaller than the one before",
        ),
        (
            ValueSets(np.array([0, 1, 2]), np.array([0, 1], np.int32)),
            "field tags: code [234] .* table of 2 rows",
        ),
    ],
)
def test_value_sets_of_a_multi_hot_field_are_within_their_tables(value_sets, message, device):
    data = with_tags(small_data())
    with pytest.raises(InputError, match=message):
        sample_set(
            replace(data, features=replace(data.features, value_sets={"tags": value_sets})), device=device
        )


def test_items_newer_than_the_model_are_scored_as_the_unknown_item():
    samples = sample_set(small_data())
    older = [
        field.model_copy(update={"size": 31}) if field.name == "item_id" else field
        for field in samples.store.schema.item
    ]
    schema = FeatureSchema(item=tuple(older), behavior=tuple(older))
    model = build_model("din", model_config("din", {}, common={"embedding_dim": 4}), schema)
    with pytest.raises(InputError, match=r"item_id: code (3[1-9]|40) "):
        predict(model, samples, batch_size=32)
    known = samples.with_vocabularies_of(schema)
    rows = torch.arange(len(samples))
    item_ids, seen = (part.batch(rows).candidate["item_id"] for part in (samples, known))
    assert (item_ids > 30).any()
    assert seen.tolist() == [code if code < 31 else 0 for code in item_ids.tolist()]
    assert np.isfinite(predict(model, known, batch_size=32)).all()
