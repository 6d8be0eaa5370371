"""Dense fields: the vector of a number is z times a row, whatever the model and the group."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from support.batches import AGE, BID, DENSE_SCHEMA, DWELL, ITEM, PRICE, SCHEMA, random_batch
from support.reference import vector
from support.training_samples import SamplesInMemory

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Sequence
from deep_interest.logs.standardised import CODES, Standardisation
from deep_interest.models import embeddings as embeddings_module
from deep_interest.models.batch import ValueSetLookup
from deep_interest.models.boosted_features import MISSING_NUMBER, BoostedFeatures, rate_sizes
from deep_interest.models.embeddings import Embeddings, Table
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.serving.scorer import Scorer

SMALL = {"embedding_dim": 4, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
LENGTHS = [3, 0, 1, 7, 2]
TRAINED = [key for key, row in MODELS.items() if not row.closed_form]


def codes_of(*numbers):
    return torch.from_numpy(Standardisation(0.0, 1.0).encode(pd.Series(numbers, dtype=np.float64)))


def build(key, options=None, *, schema=DENSE_SCHEMA):
    torch.manual_seed(0)
    model = build_model(key, model_config(key, options or {}, common=SMALL), schema).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_vector_of_a_number_and_its_gradient(dtype):
    schema = FeatureSchema(item=(ITEM[0], PRICE, ITEM[1]), behavior=(ITEM[0],))
    embeddings = Embeddings(schema, dim=3, std=1.0).to(dtype)
    codes = {
        "item_id": torch.tensor([1, 2, 1, 3]).int(), "price": codes_of(1.5, np.nan, -2, 0), "category": torch.tensor([1, 1, 0, 4]).int(),
    }  # fmt: skip
    found = embeddings(codes, schema.item)
    table = embeddings.tables["price"].weight.detach()
    expected = torch.stack([1.5 * table[1], table[0], -2 * table[1], 0 * table[1]])
    assert table.shape == (2, 3)
    torch.testing.assert_close(found[:, 3:6], expected, rtol=0, atol=0)
    torch.testing.assert_close(found[:, 6:], embeddings.tables["category"].weight[codes["category"].long()])
    upstream = torch.randn(4, 9, dtype=dtype)
    found.backward(upstream)
    gradient = embeddings.tables["price"].weight.grad.to_dense()
    z = torch.tensor([1.5, 0, -2, 0], dtype=dtype)
    torch.testing.assert_close(gradient[0], upstream[1, 3:6])
    torch.testing.assert_close(gradient[1], (z[:, None] * upstream[:, 3:6]).sum(0))


def test_a_table_of_weights_multiplies_them_by_the_number():
    table = Table(PRICE, 1, groups=("item",), std=1.0)
    found = table(codes_of(2.0, np.nan, -0.5)).squeeze(1)
    torch.testing.assert_close(
        found, torch.stack([2 * table.weight[1, 0], table.weight[0, 0], -table.weight[1, 0] / 2])
    )
    assert table.rows_of(codes_of(2.0, np.nan, -8)).tolist() == [1, 0, 1]


@pytest.mark.parametrize("code", [-1, CODES, 400_000_000])
@pytest.mark.parametrize("key", ["din", "lr", "sdim", "sim_hard", "boosted"])
def test_a_code_that_is_not_one_of_a_number_is_named(key, code):
    model = build_model(key, model_config(key, {}, common=SMALL), DENSE_SCHEMA)
    batch = random_batch(LENGTHS, schema=DENSE_SCHEMA)
    batch.history["dwell"][4] = code
    with pytest.raises(InputError, match=f"dwell: code {code} at position 4"):
        model(batch) if key != "boosted" else model.fit(in_memory(batch))


def in_memory(batch):
    offsets = batch.offsets.tolist()
    histories = {
        name: [codes[begin:end].tolist() for begin, end in pairwise(offsets)]
        for name, codes in batch.history.items()
    }
    return SamplesInMemory(
        batch.candidate, histories, torch.arange(batch.size) % 2, profile=batch.profile, context=batch.context
    )


def test_without_dense_fields_a_group_is_one_lookup_as_before(monkeypatch):
    """Nothing is multiplied, and no field has a lookup of its own."""
    parts = []
    original = embeddings_module._parts
    monkeypatch.setattr(
        embeddings_module,
        "_parts",
        lambda *args, **options: parts.append(original(*args, **options)) or parts[-1],
    )
    monkeypatch.setattr(embeddings_module, "times_z", lambda *_: pytest.fail("no field is dense"))
    build("din", schema=SCHEMA)(random_batch(LENGTHS, schema=SCHEMA))
    assert {len(group) for group in parts} == {1}


def test_dense_and_multi_hot_fields_in_one_group():
    tags = ITEM[1].model_copy(update={"pooling": "sum"})
    schema = FeatureSchema(item=(PRICE, tags, AGE), behavior=(PRICE,))
    embeddings = Embeddings(schema, dim=2, std=1.0)
    sets = {"category": ValueSetLookup(torch.tensor([0, 1, 3]), torch.tensor([0, 1, 4]).int())}
    codes = {"price": codes_of(2.0, np.nan), "category": torch.tensor([1, 0]).int(), "age": codes_of(-1, 1)}
    price, category, age = (embeddings.tables[name].weight for name in ("price", "category", "age"))
    expected = torch.stack(
        [
            torch.cat([2 * price[1], category[1] + category[4], -age[1]]),
            torch.cat([price[0], category[0], age[1]]),
        ]
    )
    torch.testing.assert_close(embeddings(codes, schema.item, sets), expected)


@pytest.mark.parametrize("key", TRAINED)
def test_the_scorer_and_a_batch_of_shared_histories_agree(key):
    model = build(key).eval()
    user = random_batch([5], schema=DENSE_SCHEMA)
    scored = Scorer(model)(user.history, user.candidate, profile=user.profile, context=user.context)
    expected = model(replace(user, negatives=None)).logits.sigmoid().detach()
    torch.testing.assert_close(scored, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("key", ["din", "sim_soft", "sdim", "dien", "boosted"])
def test_a_dense_field_of_a_further_sequence(key):
    of_views = Sequence(behavior=(*ITEM, PRICE, DWELL))
    schema = DENSE_SCHEMA.model_copy(update={"sequences": {"views": of_views}})
    batch = random_batch(LENGTHS, schema=DENSE_SCHEMA)
    views = random_batch([3, 4, 0, 2, 1], schema=schema.of_sequence("views"), seed=3)
    batch = replace(batch, sequences={"views": replace(views, candidate=batch.candidate)})
    if key == "boosted":
        rates = {name: np.zeros((1, size)) for name, size in rate_sizes(schema).items()}
        counts = {field.name: np.zeros(field.size) for field in ITEM}
        columns = BoostedFeatures(schema, rates, counts)(batch, np.zeros(batch.size, int))
        assert "views: newest behaviour: dwell" in columns
        return
    model = build(key, schema=schema)
    logits = model(batch).logits
    changed = views.history | {"dwell": codes_of(*np.linspace(-3, 3, 10))}
    other = replace(batch, sequences={"views": replace(views, candidate=batch.candidate, history=changed)})
    change = (model(other).logits - logits).abs()
    assert change[2] == 0
    assert change[[0, 1, 3, 4]].min() > 1e-12
    logits.sum().backward()
    assert model.embeddings.tables["dwell"].weight.grad is not None


@pytest.mark.parametrize("option", ["scale", "both", "concat", "none"])
def test_dense_own_fields_are_concatenated_and_never_scale(option):
    model = build("din", {"own_fields": option})
    if option != "none":
        assert list(model.own_fields.scales) == ([] if option == "concat" else ["rating"])
    batch = random_batch(LENGTHS, schema=DENSE_SCHEMA)
    logits = model(batch).logits
    changed = replace(batch, history=batch.history | {"dwell": codes_of(*np.linspace(-3, 3, 13))})
    assert torch.equal(model(changed).logits, logits) == (option in ("scale", "none"))
    alone = DENSE_SCHEMA.model_copy(update={"behavior": (*ITEM, PRICE, DWELL)})
    assert build("din", {"own_fields": option}, schema=alone)(batch).logits.isfinite().all()


def test_wide_and_deep_crosses_no_numbers():
    assert list(build("wide_deep").wide.weights) == ["item_id", "category"]
    only = FeatureSchema(item=(ITEM[0], PRICE), behavior=(PRICE,))
    with pytest.raises(InputError, match="there is none; add item_id or a category to both"):
        build("wide_deep", schema=only)


def test_a_hard_search_needs_a_category():
    with pytest.raises(
        InputError,
        match=r"search_field: SIM searches behaviours by 'price'.* choose one of item_id, category",
    ):
        build("sim_hard", {"search_field": "price"})


@pytest.mark.parametrize("own", [True, False])
def test_asvd_multiplies_factors_and_weights_by_the_number(own):
    schema = DENSE_SCHEMA if own else DENSE_SCHEMA.items_only
    model, batch = build("asvd", schema=schema), random_batch(LENGTHS, schema=schema)
    expected, offsets = [], batch.offsets.tolist()

    def total(tables, fields, codes, row):
        return sum(
            vector(tables[field.name].weight.detach().numpy(), field, int(codes[field.name][row]))
            for field in fields
        )

    for b in range(batch.size):
        groups = (("item", batch.candidate), ("profile", batch.profile), ("context", batch.context))
        logit = model.bias.item() + sum(
            total(model.biases[group], schema.fields(group), codes, b)[0] for group, codes in groups
        )
        q = total(model.factors.tables, schema.item, batch.candidate, b)
        rows = range(offsets[b], offsets[b + 1])
        user = sum((total(model.presence, schema.shared, batch.history, j) for j in rows), np.zeros(4))
        if own:
            w = [
                (
                    total(model.weights, schema.own, batch.history, j)
                    - total(model.means, schema.shared, batch.history, j)
                )[0]
                for j in rows
            ]
            mean = sum(w) / (len(rows) + 3)
            logit += model.of_mean.item() * mean
            for j, weight in zip(rows, w, strict=True):
                user = user + (weight - mean) * total(model.factors.tables, schema.shared, batch.history, j)
        expected.append(logit + q @ user / np.sqrt(max(len(rows), 1)))
    np.testing.assert_allclose(model(batch).logits.detach().numpy(), expected, rtol=1e-9)


def test_boosted_sees_numbers():
    assert not {
        key
        for key in rate_sizes(DENSE_SCHEMA)
        if any(name in key for name in ("price", "dwell", "age", "bid"))
    }
    batch = random_batch([3, 0], schema=DENSE_SCHEMA)
    batch.history |= {"dwell": codes_of(1, np.nan, 2), "price": codes_of(0.5, 1, np.nan)}
    batch.history["item_id"] = torch.tensor([7, 7, 5]).int()
    batch.candidate |= {"item_id": torch.tensor([7, 7]).int(), "price": codes_of(-1, np.nan)}
    batch.profile["age"], batch.context["bid"] = codes_of(1.25, 3), codes_of(-8, 9)
    rates = {name: np.zeros((1, size)) for name, size in rate_sizes(DENSE_SCHEMA).items()}
    counts = {field.name: np.zeros(field.size) for field in ITEM}
    columns = BoostedFeatures(DENSE_SCHEMA, rates, counts)(batch, np.zeros(2, int))
    missing = MISSING_NUMBER
    assert missing < -8
    expected = {
        "item price: number": [-1, missing], "profile age: number": [1.25, 3], "context bid: number": [-8, 8],
        "newest behaviour: dwell": [2, missing], "newest behaviour: price": [missing, missing],
        "history: mean of dwell": [1.5, missing], "history: mean of price": [0.75, missing],
        "matches in item_id: dwell of newest": [missing, missing],
    }  # fmt: skip
    assert {name: columns[name].tolist() for name in expected} == expected
    assert not [name for name in columns if name.startswith("matches in price")]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["item_knn", "boosted", "popularity", "item_rate"])
def test_models_that_are_fitted_in_one_step(key):
    model = build_model(key, model_config(key, {}), DENSE_SCHEMA)
    batch = random_batch(list(range(6)) * 20, schema=DENSE_SCHEMA)
    model.fit(in_memory(batch))
    logits = model(batch).logits
    assert logits.isfinite().all()
    restored = build_model(key, model_config(key, {}), DENSE_SCHEMA)
    restored.load_state_dict(model.state_dict())
    torch.testing.assert_close(restored(batch).logits, logits)


def test_boosted_learns_from_a_number():
    schema = FeatureSchema(item=ITEM, behavior=ITEM, context=(BID,))
    batch = random_batch([0] * 2000, schema=schema)
    samples = in_memory(batch)
    samples.labels = (batch.context["bid"] > codes_of(0.7)).float()
    model = build_model("boosted", model_config("boosted", {}), schema)
    model.fit(samples)
    found = model(batch).logits > 0
    assert (found == samples.labels.bool()).float().mean() > 0.99
