"""Models of long histories: what they look up, what they select, and what they refuse."""

from dataclasses import replace

import pytest
import torch
from support.batches import DENSE_SCHEMA, OWN_SCHEMA, PLAIN_SCHEMA, SCHEMA, random_batch, sharing_batches

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field, Sequence
from deep_interest.models.batch import ValueSetLookup
from deep_interest.models.registry import build_model, model_config

SEARCHES = {
    "sim_hard": {"search": "category", "search_length": 2},
    "sim_soft": {"search": "soft", "search_length": 2},
    "eta": {"search_length": 2},
    "twin": {"search_length": 2},
}
MODELS = {**SEARCHES, "sdim": {}, "stca": {}}
SMALL = {"embedding_dim": 4, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
LENGTHS = [30, 0, 5, 1]


def build(key, *, schema=SCHEMA, **options):
    torch.manual_seed(0)
    options = MODELS[key] | ({} if key == "stca" else {"short_length": 2}) | options
    return build_model(key, model_config(key, options, common=SMALL), schema).double()


@pytest.mark.parametrize(
    "schema", [SCHEMA, OWN_SCHEMA, DENSE_SCHEMA], ids=["all groups", "own fields", "dense fields"]
)
@pytest.mark.parametrize("key", [*SEARCHES, "sdim"])
def test_looking_up_the_selected_behaviours_equals_selecting_from_all(key, schema):
    model = build(key, schema=schema).eval()
    batch, _ = sharing_batches(LENGTHS, [0, 0, 1, 2, 2, 3], schema=schema)
    history, candidate = model.embed(batch)
    interest = model.represent(history, candidate, batch).vector
    torch.testing.assert_close(model.features(batch)[0][:, : interest.shape[1]], interest)


@pytest.mark.parametrize("key", ["sim_hard", "eta", "twin"])
def test_behaviours_that_are_not_selected_have_no_gradient(key):
    schema = FeatureSchema(item=(Field(name="item_id", size=99), Field(name="category", size=5)),
                           behavior=(Field(name="item_id", size=99), Field(name="category", size=5)))  # fmt: skip
    model = build(key, schema=schema)
    batch = replace(random_batch([60], schema=schema), negatives=None)
    batch.history["item_id"] = torch.arange(1, 61).int()
    model(batch).logits.sum().backward()
    rows = model.embeddings.tables["item_id"].weight.grad.coalesce().indices()[0]
    assert len(rows) <= 2 + 2 + 1  # selected, newest, candidate


@pytest.mark.parametrize("key", MODELS)
def test_a_further_sequence_changes_the_prediction(key):
    views = (*SCHEMA.item, Field(name="action", size=4))
    schema = SCHEMA.model_copy(update={"sequences": {"views": Sequence(behavior=views)}})
    model, batch = build(key, schema=schema).eval(), random_batch(LENGTHS, schema=SCHEMA)
    of_views = schema.of_sequence("views")
    first, second = (
        replace(batch, sequences={"views": replace(random_batch([3, 4, 0, 2], schema=of_views, seed=seed), candidate=batch.candidate)})
        for seed in (0, 1)
    )  # fmt: skip
    ours, theirs = (model(each).logits for each in (first, second))
    assert (ours - theirs).abs()[[0, 1, 3]].min() > 1e-9
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("key", ["sim_hard", "sim_soft", "eta", "twin", "sdim"])
def test_multi_hot_fields_are_searched_by_their_pooled_vectors(key, dtype):
    fields = (*SCHEMA.item, Field(name="tags", size=6, pooling="sum"))
    plain = random_batch(LENGTHS, schema=PLAIN_SCHEMA)
    tags = {"candidate": torch.tensor([0, 1, 2, 0]).int(), "history": torch.arange(36).int() % 3}
    batch = replace(
        plain, negatives=None, candidate=plain.candidate | {"tags": tags["candidate"]}, history=plain.history | {"tags": tags["history"]},
        value_sets={"tags": ValueSetLookup(torch.tensor([0, 1, 3, 4]), torch.tensor([0, 1, 5, 3]).int())},
    )  # fmt: skip
    model = build(key, schema=FeatureSchema(item=fields, behavior=fields)).to(dtype).eval()
    history, candidate = model.embed(batch)
    interest = model.represent(history, candidate, batch).vector
    torch.testing.assert_close(model.features(batch)[0][:, : interest.shape[1]], interest)


def test_the_soft_search_is_trained_on_a_sample_of_a_long_history():
    model, batch = build("sim_soft", search_sample=7), random_batch(LENGTHS)
    torch.manual_seed(0)
    found = model.features(batch)[1]
    torch.manual_seed(1)
    assert model.features(batch)[1] != found
    assert model.eval()(batch).auxiliary_loss is None


def test_a_hard_search_needs_its_field():
    with pytest.raises(
        InputError,
        match=r"search_field: SIM searches behaviours by 'brand'.* choose one of item_id, category",
    ):
        build("sim_hard", search_field="brand")


def test_the_bits_of_all_rounds_fit_a_fingerprint():
    with pytest.raises(ValueError, match="hash_rounds × bucket_bits is 64, expected at most 63"):
        build("sdim", hash_rounds=16, bucket_bits=4)
