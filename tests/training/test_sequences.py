"""Models with further sequences of behaviours: each is represented like the first one, with the same embeddings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from support.batches import ITEM, SCHEMA

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.schema import FeatureSchema, Field, Sequence
from deep_interest.models.base import BaseModel, EmbeddingMLP
from deep_interest.models.embeddings import embedding_tables
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.occurrences import (
    gathered_samples_with_each_id,
    occurrences_of,
    samples_with_each_id,
)
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer, occurrence_key

ACTION, GAP = Field(name="action", size=4), Field(name="gap", size=44, derived=True)
MAIN = SCHEMA.model_copy(update={"profile": (), "context": ()})
CARTS = Sequence(behavior=(*ITEM, ACTION, GAP), max_len=3)
WITH_CARTS = MAIN.model_copy(update={"sequences": {"carts": CARTS}})
OPTIONS = yaml.safe_load((Path(__file__).parents[2] / "conf/base/parameters/models.yml").read_text())[
    "models"
]
SMALL = {
    "embedding_dim": 4,
    "embedding_std": 1.0,
    "hidden": (5, 4),
    "attention_hidden": (6, 3),
    "dropout": 0.0,
}
DEEP = [key for key, spec in MODELS.items() if not spec.closed_form and issubclass(spec.load(), EmbeddingMLP)]


def samples(schema=WITH_CARTS, *, begin=False, seed=0, count=40):
    """Samples of five users with two logs."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    lengths = np.array([0, 3, 0, 7, 2, 12])

    def log(lengths, fields, times):
        total = int(lengths.sum())
        codes = {f.name: rng.integers(0, f.size, total).astype(np.int32) for f in fields if not f.derived}
        return np.append(0, lengths.cumsum()), codes, np.sort(rng.integers(0, 50, total)) if times else None

    offsets, codes, _ = log(lengths, MAIN.behavior, times=False)
    more = BehaviorLog(*log(lengths[::-1].copy(), CARTS.behavior, times=True))
    sequences = {"carts": more} if schema.sequences else {}
    features = FeatureTables(
        schema, {f.name: rng.integers(0, f.size, 13).astype(np.int32) for f in schema.item}, {}
    )
    store = FeatureStore.build(
        BehaviorLog(offsets, codes, sequences=sequences), features, torch.device("cpu")
    )
    user = rng.integers(1, 6, count)
    end = np.array([rng.integers(0, lengths[u] + 1) for u in user])
    own = np.array([rng.integers(0, lengths[::-1][u] + 1) for u in user])
    frame = pd.DataFrame(
        {
            "user": user.astype(np.int32), "item": rng.integers(0, 13, count).astype(np.int32), "label": rng.integers(0, 2, count),
            "time": 60, "history_end": end.astype(np.int32), "split": "train", "history_end.carts": own.astype(np.int32),
            "history_begin.carts": (own // 3).astype(np.int32),
        }
    )  # fmt: skip
    if begin:
        frame["history_begin"] = (end // 2).astype(np.int32)
    return SampleSet.build(store, frame, "train", max_len=5)


def build(key, schema=WITH_CARTS):
    torch.manual_seed(0)
    own = {name: value for name, value in OPTIONS[key].items() if name != "training"}
    model = build_model(key, model_config(key, own, common=SMALL), schema).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def test_a_batch_has_the_events_that_each_sample_sees():
    found = samples()
    batch = found.batch(torch.arange(len(found)))
    carts, ranges = batch.sequences["carts"], found.sequences["carts"]
    log = found.store.sequences["carts"]
    for row in range(len(found)):
        start = int(log.offsets[found.user[row]])
        begin, end = int(ranges.begin[row]), int(ranges.end[row])
        rows = slice(start + max(begin, end - 3), start + max(begin, end))
        history = row if carts.owner is None else int(carts.owner[row])
        span = slice(int(carts.offsets[history]), int(carts.offsets[history + 1]))
        for name in ("item_id", "category", "action"):
            assert carts.history[name][span].tolist() == log.fields[name][rows].tolist()
        expected = [1 + int(60 - time).bit_length() for time in log.times[rows]]
        assert carts.history["gap"][span].tolist() == expected


def test_the_negatives_of_a_batch_are_the_shown_items_where_there_are_any():
    found = samples(MAIN)
    store, rng = found.store, np.random.default_rng(5)
    shown = torch.from_numpy(rng.integers(0, 13, int(store.offsets[-1])).astype(np.int32))
    shown[::3] = 0
    with_shown = replace(found, store=replace(store, log=replace(store.log, negatives=shown)))
    names = {field.name for field in MAIN.shared}
    batch = with_shown.batch(torch.arange(len(found)), negatives=names)
    starts = found.store.offsets[found.user.long()]
    counted = 0
    for row in range(len(found)):
        history = row if batch.owner is None else int(batch.owner[row])
        span = slice(int(batch.offsets[history]), int(batch.offsets[history + 1]))
        end = int(starts[row]) + int(found.history_end[row])
        expected = shown[end - (span.stop - span.start) : end]
        for name in names:
            negatives, of_items = batch.negatives[name][span], store.items[name][expected.long()]
            assert negatives[expected > 0].tolist() == of_items[expected > 0].tolist()
        counted += int((expected > 0).sum())
    assert counted > 20


@pytest.mark.parametrize("key", DEEP)
def test_a_further_sequence_is_represented_by_a_model_of_the_same_class_and_concatenated(key):
    model, found = build(key), samples()
    batch = found.batch(torch.arange(len(found)))
    features, _ = model.features(batch)
    representing = "base" if isinstance(model, BaseModel) and type(model) is not BaseModel else key
    alone = build(representing, WITH_CARTS.of_sequence("carts"))
    alone.embeddings = model.embeddings
    part = {
        name.removeprefix("sequences.carts."): value
        for name, value in model.state_dict().items()
        if name.startswith("sequences.carts.")
    }
    alone.load_state_dict(part, strict=False)
    expected, _ = EmbeddingMLP.features(alone, batch.sequences["carts"])
    width = alone.interest_width
    torch.testing.assert_close(features[:, -width:], expected[:, :width])
    assert model(batch).logits.shape == (len(found),)


@pytest.mark.parametrize("key", ["base", "din", "dien"])
def test_a_further_sequence_changes_predictions_only_of_samples_that_see_its_events(key):
    model, found = build(key), samples()
    batch = found.batch(torch.arange(len(found)))
    before = model(batch).logits
    carts = batch.sequences["carts"]
    carts.history = carts.history | {"action": (carts.history["action"] + 1) % 4}
    changed = (model(batch).logits - before).abs() > 1e-12
    ranges = found.sequences["carts"]
    assert torch.equal(changed, ranges.end > ranges.begin)


@pytest.mark.parametrize("begin", [False, True])
def test_occurrences_count_each_sample_once_over_all_sequences(begin):
    found, table = (
        samples(begin=begin),
        next(t for t in embedding_tables(build("base")) if t.field == "item_id"),
    )
    counts = np.zeros(13, np.int64)
    for row in range(len(found)):
        batch = found.batch(torch.tensor([row]))
        ids = {*batch.candidate["item_id"].tolist(), *batch.history["item_id"].tolist()}
        for code in ids | set(batch.sequences["carts"].history["item_id"].tolist()):
            counts[code] += 1
    np.testing.assert_array_equal(occurrences_of([table], found)[occurrence_key(table)].numpy(), counts)


def test_both_ways_to_count_agree_without_further_sequences():
    found = samples(MAIN)
    for table in embedding_tables(build("base", MAIN)):
        expected = samples_with_each_id(found, table.field, table.groups, table.num_embeddings)
        np.testing.assert_array_equal(gathered_samples_with_each_id(found, table), expected)


def test_regularisation_counts_occurrences_in_further_sequences():
    found, model = samples(), build("base")
    table = next(t for t in embedding_tables(model) if t.field == "item_id")
    batch = found.batch(torch.arange(6))
    rows = torch.arange(13)
    strength = Regularizer(table, TrainingOptions(difacto=1.0, l2=0.0), None)(rows, batch)
    expected = np.zeros(13)
    for row in range(6):
        one = found.batch(torch.tensor([row]))
        for codes in (one.candidate, one.history, one.sequences["carts"].history):
            expected += np.bincount(codes["item_id"].numpy(), minlength=13)
    assert strength.tolist() == expected.tolist()


def test_a_schema_without_sequences_is_written_as_before():
    assert "sequences" not in FeatureSchema(item=ITEM, behavior=ITEM).model_dump_json()
    assert FeatureSchema.model_validate_json(WITH_CARTS.model_dump_json()) == WITH_CARTS
    assert [f.name for f in WITH_CARTS.without(["action"]).sequences["carts"].behavior] == [
        "item_id",
        "category",
        "gap",
    ]


@pytest.mark.parametrize("key", [key for key, spec in MODELS.items() if not spec.closed_form])
def test_occurrences_are_counted_for_every_table_of_every_model(key):
    """Derived fields have no occurrences; everything else is in the log."""
    found, model = samples(), build(key)
    tables = [table for table in embedding_tables(model) if table.is_counted]
    assert set(occurrences_of(embedding_tables(model), found)) == {occurrence_key(table) for table in tables}
    own = build(key, MAIN.model_copy(update={"behavior": CARTS.behavior}))
    assert all("behavior" not in table.groups for table in embedding_tables(own) if table.field == "gap")


def test_a_model_of_items_only_ignores_what_happened():
    schema = MAIN.model_copy(update={"behavior": CARTS.behavior})
    model = build("din_items", schema)
    assert {table.field for table in embedding_tables(model)} == {"item_id", "category"}
    found = samples()
    batch = found.batch(torch.arange(len(found))).sequences["carts"]
    before = model(batch).logits
    batch.history = batch.history | {"action": (batch.history["action"] + 1) % 4}
    torch.testing.assert_close(model(batch).logits, before)
