"""Codes and offsets of a batch that are out of range raise, whatever the model and the feature group."""

from dataclasses import replace

import pytest
import torch
from support.batches import SCHEMA, random_batch, sharing_batches

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.batch import ValueSetLookup
from deep_interest.models.registry import MODELS, build_model, model_config

SMALL = {"embedding_dim": 4, "hidden": (5, 4), "attention_hidden": (6, 3)}
KINDS = {row.path: key for key, row in reversed(MODELS.items())}  # a row of each class
CLOSED_FORM = [key for key in KINDS.values() if MODELS[key].closed_form]
ROWS = [key for key in KINDS.values() if key not in CLOSED_FORM]
SIZES = {"item_id": 13, "category": 5, "gender": 3, "hour": 4}
FIELDS = {
    "candidate": ("item_id", "category"), "history": ("item_id", "category"), "negatives": ("item_id", "category"),
    "profile": ("gender",), "context": ("hour",),
}  # fmt: skip
LENGTHS = [3, 0, 1, 7, 2]


def build(key, *, schema=SCHEMA, options=None):
    torch.manual_seed(0)
    return build_model(key, model_config(key, options or {}, common=SMALL), schema)


def batch_with(group, field, code):
    """A batch one of whose codes is another."""
    batch = random_batch(LENGTHS)
    batch.labels = batch.labels.float()
    if group not in ("negatives",):
        batch.negatives = None
    codes = dict(getattr(batch, group))
    codes[field] = codes[field].clone()
    codes[field][2] = code
    return replace(batch, **{group: codes})


def groups_of(key):
    """The groups that a model looks up."""
    if key in CLOSED_FORM:
        return {"candidate": ("item_id",)}
    unread = {
        "asvd": ("negatives",),
        "nade": ("negatives",),
        "lr": ("negatives",),
        "fm": ("negatives",),
        "user_only": ("context",),
    }
    unread |= dict.fromkeys(("sim_hard", "eta", "twin", "sdim"), ("negatives",))
    return {group: fields for group, fields in FIELDS.items() if group not in unread.get(key, ())}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # compiled and plain
@pytest.mark.parametrize("key", [*ROWS, *CLOSED_FORM])
def test_a_code_outside_its_table_is_named(key, dtype):
    model = build(key).to(dtype)
    for group, fields in groups_of(key).items():
        for field in fields:
            for code in (SIZES[field], 50_000, 400_000_000, -1):
                with pytest.raises(
                    InputError, match=rf"{field}: code {code} at .* table of {SIZES[field]} rows"
                ):
                    model(batch_with(group, field, code))


def test_a_code_that_a_filter_would_drop_is_named_too():
    model = build("base", options={"keep_top": 3})
    model.embeddings.tables["item_id"].kept.zero_()
    for code in (13, -1):
        with pytest.raises(InputError, match=f"item_id: code {code} "):
            model(batch_with("history", "item_id", code))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["din", "dien", "wide_deep", "lr"])
def test_a_training_step_with_a_bad_code_changes_nothing_and_the_next_one_works(key):
    model, twin = build(key), build(key)
    for code in (13, 50_000, 400_000_000, -1):
        with pytest.raises(InputError, match=f"code {code} "):
            model(batch_with("history", "item_id", code)).logits.sum().backward()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, twin.state_dict()[name]), name
    good, gradients = batch_with("history", "item_id", 1), []
    for one in (model, twin):
        one(good).logits.sum().backward()
        gradients.append([p.grad.to_dense() for p in one.parameters() if p.grad is not None])
    assert len(gradients[0]) > 1
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


TAGS = Field(name="tags", size=6, pooling="sum")
ITEM_ID = Field(name="item_id", size=13)
MULTI_HOT = FeatureSchema(item=(ITEM_ID, TAGS), behavior=(ITEM_ID, TAGS))


def multi_hot_batch(*, value_set=1, value=5, offsets=(0, 1, 3, 4)):
    plain = random_batch(LENGTHS, schema=FeatureSchema(item=(ITEM_ID,), behavior=(ITEM_ID,)))
    candidate = plain.candidate | {"tags": torch.tensor([0, 1, 2, 0, value_set]).int()}
    history = plain.history | {"tags": torch.arange(13).int() % 3}
    value_sets = {"tags": ValueSetLookup(torch.tensor(offsets), torch.tensor([0, 1, value, 3]).int())}
    return replace(plain, candidate=candidate, history=history, negatives=None, value_sets=value_sets)


@pytest.mark.parametrize("key", ["din", "lr", "fm"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value_set": 3}, "tags, value sets: code 3 at position 4 .* 3 rows"),
        ({"value_set": -1}, "tags, value sets: code -1"),
        ({"value_set": 400_000_000}, "tags, value sets: code 400000000"),
        ({"value": 6}, "tags: code 6 .* 6 rows"),
        ({"value": -1}, "tags: code -1"),
        ({"value": 50_000}, "tags: code 50000"),
        ({"offsets": (0, 1, 3, 9)}, "outside the 4 rows"),
        ({"offsets": (0, 3, 1, 4)}, "smaller than the one before"),
    ],
)
def test_value_sets_and_their_values_are_within_their_tables(key, change, message):
    model = build(key, schema=MULTI_HOT)
    model(multi_hot_batch())
    with pytest.raises(InputError, match=message):
        model(multi_hot_batch(**change))


@pytest.mark.parametrize("key", ROWS)
def test_offsets_owners_and_lengths_fit_together(key):
    model, batch = build(key), replace(random_batch(LENGTHS), negatives=None)
    one_more = {name: torch.cat([codes, codes[:1]]) for name, codes in batch.candidate.items()}
    wrong = [
        ({"offsets": torch.tensor([0, 3, 1, 4, 11, 13])}, "smaller than the one before"),
        ({"offsets": torch.tensor([0, 3, 3, 4, 11, 14])}, "found 0 to 14"),
        ({"offsets": torch.tensor([0, 3, 3, 4, 11, 12])}, "found 0 to 12"),
        ({"offsets": torch.tensor([1, 3, 3, 4, 11, 13])}, "found 1 to 13"),
        ({"offsets": torch.tensor([0, 3, 3, 4, 13])}, "5 values for 4 samples"),
        ({"candidate": one_more}, "6 values for 5 samples"),
        ({"labels": torch.zeros(4)}, "labels: found 4 values for 5 samples"),
        ({"history": batch.history | {"item_id": batch.history["item_id"][:-1]}}, "12|as many codes"),
    ]
    for change, message in wrong:
        with pytest.raises(InputError, match=message):
            model(replace(batch, **change))


@pytest.mark.slow
@pytest.mark.parametrize("owner", [[0, 0, 1, 5, 4], [0, 0, 1, -1, 2], [1, 0, 2, 3, 4]])
@pytest.mark.parametrize("key", ["din", "dien", "dmin", "bst"])
def test_owners_are_histories_in_their_order(key, owner):
    shared, _ = sharing_batches(LENGTHS, [0, 0, 1, 2, 4])
    with pytest.raises(InputError, match="owner"):
        build(key)(replace(shared, negatives=None, owner=torch.tensor(owner)))
