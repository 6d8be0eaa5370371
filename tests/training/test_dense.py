"""Training with dense fields: occurrences, penalties, untrained rows, bounds of codes, and a fit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.batches import DENSE_SCHEMA, random_batch
from support.training import sample_set, small_data, with_prices

from deep_interest.errors import InputError
from deep_interest.logs.schema import Field
from deep_interest.logs.standardised import CODES
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.evaluation import predict
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import gathered_samples_with_each_id, occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer
from deep_interest.training.unknown import UnknownRows

COMMON = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}


def dense_table(name, *groups):
    return Table(Field(name=name, size=2, dense=True), 2, groups=groups, std=1.0)


@pytest.mark.parametrize("max_len", [1, 3, 100])
@pytest.mark.parametrize(
    ("field", "groups"),
    [
        ("price", ("item", "behavior")),
        ("price", ("item",)),
        ("price", ("behavior",)),
        ("dwell", ("behavior",)),
    ],
)
def test_a_sample_counts_once_for_missing_values_and_once_for_numbers(field, groups, max_len):
    samples = sample_set(with_prices(small_data()), max_len=max_len)
    table, expected = dense_table(field, *groups), [0, 0]
    for row in range(len(samples)):
        start, end = int(samples.store.offsets[samples.user[row]]), int(samples.history_end[row])
        rows = slice(start + max(0, end - max_len), start + end)
        codes = samples.store.history[field][rows].tolist() if "behavior" in groups else []
        if "item" in groups:
            codes.append(int(samples.store.items[field][samples.item[row]]))
        for present in {code > 0 for code in codes}:
            expected[present] += 1
    assert min(expected) > 0
    (counted,) = occurrences_of([table], samples).values()
    assert counted.tolist() == gathered_samples_with_each_id(samples, table).tolist() == expected


def test_profile_and_context_are_counted_by_row():
    data = with_prices(small_data())
    age, bid = (Field(name=name, size=2, dense=True) for name in ("age", "bid"))
    users = np.where(np.arange(61) % 3 == 0, 0, 40_000).astype(np.int32)
    data = replace(
        data, features=replace(data.features, schema=data.features.schema.model_copy(update={"profile": (age,), "context": (bid,)}),
                               users={"age": users}),
        samples=data.samples.assign(bid=np.where(np.arange(len(data.samples)) % 4 == 0, 0, 30_000).astype(np.int32)),
    )  # fmt: skip
    train = sample_set(data)
    tables = [dense_table("age", "profile"), dense_table("bid", "context")]
    of_age, of_bid = occurrences_of(tables, train).values()
    present = users[train.user.numpy()] > 0
    assert of_age.tolist() == [int((~present).sum()), int(present.sum())]
    missing = int((train.context["bid"] == 0).sum())
    assert of_bid.tolist() == [missing, len(train) - missing]


@pytest.mark.parametrize("penalty", ["difacto", "mba", "l2"])
def test_penalties_count_the_two_rows(penalty):
    batch = random_batch([3, 0, 1, 7, 2], schema=DENSE_SCHEMA)
    codes = np.concatenate([batch.candidate["price"], batch.history["price"]])
    counts = np.bincount(codes > 0, minlength=2)
    regularizer = Regularizer(
        dense_table("price", "item", "behavior"), TrainingOptions(**{penalty: 0.5}), torch.tensor([4, 10])
    )
    expected = {"difacto": 0.5 * counts, "mba": [0.5 / 4, 0.5 / 10], "l2": [0.5, 0.5]}[penalty]
    assert regularizer(torch.arange(2), batch).tolist() == pytest.approx(list(expected))


@pytest.mark.parametrize("counts", [[0, 5], [0, 0]])
def test_a_missing_value_that_training_has_not_seen_is_like_the_mean(counts):
    price = dense_table("price", "item")
    before = price.weight.detach().clone()
    UnknownRows([price], {"price:item": torch.tensor(counts)}).fill()
    assert price.weight[0].tolist() == [0, 0]
    assert torch.equal(price.weight[1], before[1] * (counts[1] > 0))


def test_the_row_of_a_missing_value_that_an_earlier_model_has_trained_is_kept():
    price = dense_table("price", "item")
    before = price.weight.detach().clone()
    UnknownRows([price], {"price:item": torch.tensor([0, 5])}, trained_before={"price:item": 2}).fill()
    assert torch.equal(price.weight, before)


@pytest.mark.parametrize("group", ["item", "behavior"])
@pytest.mark.parametrize("code", [-1, CODES])
def test_codes_outside_the_numbers_are_named(group, code):
    data = with_prices(small_data())
    arrays = data.features.items if group == "item" else data.log.fields
    arrays["price"] = arrays["price"].copy()
    arrays["price"][5] = CODES - 1
    sample_set(data)
    arrays["price"][5] = code
    with pytest.raises(InputError, match=f"{group} field price: code {code} at position 5"):
        sample_set(data)


def test_values_stay_when_an_earlier_schema_scores():
    samples = sample_set(with_prices(small_data()))
    older = samples.with_vocabularies_of(samples.store.schema)
    assert torch.equal(older.store.items["price"], samples.store.items["price"])
    assert torch.equal(older.store.history["dwell"], samples.store.history["dwell"])


@pytest.mark.slow
@pytest.mark.parametrize("key", ["din", "lr", "dien", "sdim"])
def test_a_fit_learns_from_a_number(tmp_path, key):
    """Clicks depend on the candidate's price alone: the fit separates them in the test set."""
    data = with_prices(small_data(users=120))
    price = data.features.items["price"][data.samples["item"]]
    data = replace(data, samples=data.samples.assign(label=(price > 8 * 4096 + 1).astype(np.int8)))
    train, validation, test = (sample_set(data, split) for split in ("train", "validation", "test"))
    torch.manual_seed(0)
    model = build_model(
        key, model_config(key, {}, common=COMMON | {"without": ("item_id",)}), data.features.schema
    )
    tables = embedding_tables(model)
    options = TrainingOptions(batch_size=32, epochs=8, learning_rate=0.03, mba=1e-4)
    fit = Fit(
        label=key, model=model, train=train, validation=validation, options=options, seed=1, state_file=tmp_path / "state.pt",
        fingerprint="x", occurrences=occurrences_of(tables, train), evaluation_batch_size=64,
    )  # fmt: skip
    fit.run()
    scores = predict(model, test, batch_size=64)
    labels = test.labels.numpy() > 0
    assert scores[labels].mean() > scores[~labels].mean() + 0.2
