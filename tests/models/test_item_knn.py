"""Item kNN against its equations with loops over samples and behaviours."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.training_samples import SamplesInMemory

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import gauc
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.popularity import prior_strength
from deep_interest.models.registry import build_model, model_config

ITEM = (Field(name="item_id", size=9), Field(name="category", size=4))
OWN = (Field(name="rating", size=4), Field(name="action", size=3))
PLAIN, SCHEMA = FeatureSchema(item=ITEM, behavior=ITEM), FeatureSchema(item=ITEM, behavior=(*ITEM, *OWN))


def random_samples(n, *, seed=0, users=30, schema=SCHEMA):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, n)
    return SamplesInMemory(
        {field.name: rng.integers(0, field.size, n) for field in schema.item},
        {
            field.name: [rng.integers(0, field.size, length).tolist() for length in lengths]
            for field in schema.behavior
        },
        rng.integers(0, 2, n), user=rng.integers(1, users, n),
    )  # fmt: skip


def build(schema=SCHEMA, **options):
    return build_model("item_knn", model_config("item_knn", options), schema).double()


def fitted(samples, schema=SCHEMA, **options):
    model = build(schema, **options)
    model.fit(samples)
    return model


def columns(samples, trained_on, schema, *, shrinkage, normalize):
    """The columns of all samples, from the equations of the docstring with the samples ``trained_on``."""
    own = [field for field in schema.behavior if field in OWN]
    item, labels = samples.candidate["item_id"].tolist(), samples.labels.tolist()
    counts, positives = np.zeros(9), np.zeros(9)
    for s in trained_on:
        counts[item[s]] += 1
        positives[item[s]] += labels[s]
    a = prior_strength(torch.from_numpy(positives), torch.from_numpy(counts))
    p = (positives + a * positives.sum() / counts.sum()) / (counts + a)

    channels = [lambda j, s: 1.0]
    scales = [1.0]
    for field in own:
        codes, total, hits = samples.histories[field.name], np.zeros(field.size), np.zeros(field.size)
        for s in trained_on:
            for code in codes[s]:
                total[code] += 1
                hits[code] += labels[s]
        mean = hits.sum() / total.sum()
        value = (hits + mean) / (total + 1) - mean
        by_item = defaultdict(list)
        for s in trained_on:
            for j, code in zip(samples.histories["item_id"][s], codes[s], strict=True):
                by_item[j].append(value[code])
        of_item = {j: sum(values) / (len(values) + 5) for j, values in by_item.items()}
        channels.append(
            lambda k, s, codes=codes, value=value, of_item=of_item: (
                value[codes[s][k]] - of_item.get(samples.histories["item_id"][s][k], 0.0)
            )
        )
        squares = [(v - of_item[j]) ** 2 for j, values in by_item.items() for v in values]
        scales.append(np.mean(squares))

    numerator, denominator = (defaultdict(lambda: np.zeros(len(channels))) for _ in range(2))
    for s in trained_on:
        for k, j in enumerate(samples.histories["item_id"][s]):
            o = np.array([channel(k, s) for channel in channels])
            numerator[item[s], j] += (labels[s] - p[item[s]]) * o
            denominator[item[s], j] += o**2
    rows = []
    for s in range(len(samples)):
        history, score = samples.histories["item_id"][s], np.zeros(len(channels))
        for k, j in enumerate(history):
            if (item[s], j) in numerator:
                w = numerator[item[s], j] / (denominator[item[s], j] + shrinkage * np.array(scales))
                score += w * np.array([channel(k, s) for channel in channels])
        rows.append([1, np.log(p[item[s]] / (1 - p[item[s]])), *(score / max(len(history), 1) ** normalize)])
    return np.array(rows)


@pytest.mark.parametrize("schema", [PLAIN, SCHEMA], ids=["presence", "own fields"])
@pytest.mark.parametrize(("shrinkage", "normalize"), [(10.0, 0.5), (3.0, 0.0)])
def test_scores_and_coefficients_are_those_of_the_equations(schema, shrinkage, normalize):
    samples, options = random_samples(150, schema=schema), {"shrinkage": shrinkage, "normalize": normalize}
    model = fitted(samples, schema, **options)
    held_out = samples.user.numpy() % 10 == 0
    beta = model.coefficients.numpy()
    design = columns(samples, np.flatnonzero(~held_out), schema, **options)[held_out]
    probability = 1 / (1 + np.exp(-design @ beta))
    prior = np.array([0.0] + [1.0] * (len(beta) - 1))
    gradient = design.T @ (samples.labels.numpy()[held_out] - probability) - (beta - prior)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)
    expected = columns(samples, range(150), schema, **options) @ beta
    np.testing.assert_allclose(model(samples.batch(torch.arange(150))).logits.numpy(), expected, rtol=1e-9)


def test_a_weight_by_hand():
    """Item 1 has 3 positives of 8; with item 2 in the history 3 of 4. λ = 2: w = (3 - 4 p) / (4 + 2)."""
    histories = {"item_id": [[2]] * 4 + [[3]] * 4, "category": [[1]] * 8}
    samples = SamplesInMemory(
        {"item_id": [1] * 8, "category": [1] * 8}, histories, [1, 1, 1, 0] + [0] * 4, user=[1] * 8
    )
    model = fitted(samples, PLAIN, shrinkage=2)
    weights = dict(zip(model.keys.tolist(), model.weights[:, 0].tolist(), strict=True))
    assert weights == pytest.approx({9 + 2: (3 - 4 * 3 / 8) / 6, 9 + 3: -4 * 3 / 8 / 6}, rel=1e-6)
    logits = model(samples.batch(torch.tensor([0, 4]))).logits.tolist()
    assert logits == pytest.approx([np.log(3 / 5) + 1.5 / 6, np.log(3 / 5) - 1.5 / 6], rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**16))
def test_the_order_of_the_users_does_not_matter(seed):
    samples = random_samples(60, seed=seed)
    order = np.random.default_rng(seed).permutation(60)
    shuffled = SamplesInMemory(
        {name: codes[order] for name, codes in samples.candidate.items()},
        {name: [lists[row] for row in order] for name, lists in samples.histories.items()},
        samples.labels[order], user=samples.user[order],
    )  # fmt: skip
    batch = samples.batch(torch.arange(60))
    torch.testing.assert_close(fitted(samples)(batch).logits, fitted(shuffled)(batch).logits)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**16))
def test_coefficients_are_fitted_on_columns_that_no_held_out_label_enters(seed):
    """With the labels of the held-out users reversed, their columns stay the same, bit for bit."""
    samples = random_samples(80, seed=seed)
    held_out = torch.from_numpy(np.flatnonzero(samples.user.numpy() % 10 == 0))
    kept = torch.from_numpy(np.flatnonzero(samples.user.numpy() % 10))
    before, after = build(), build()
    before._fit_neighbors(samples, kept)
    samples.labels[held_out] = 1 - samples.labels[held_out]
    after._fit_neighbors(samples, kept)
    batch = samples.batch(held_out)
    assert torch.equal(before._columns(batch), after._columns(batch))


def test_only_the_strongest_neighbours_are_kept():
    samples = random_samples(300)
    everything, few = fitted(samples), fitted(samples, neighbors=2)
    assert torch.bincount(few.keys // 9).tolist() == [2] * 9
    everything_by_key = dict(zip(everything.keys.tolist(), everything.weights.tolist(), strict=True))
    assert all(
        everything_by_key[key] == weight
        for key, weight in zip(few.keys.tolist(), few.weights.tolist(), strict=True)
    )


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_the_size_of_the_batches_does_not_matter(size, monkeypatch):
    samples = random_samples(60)
    expected = fitted(samples)
    import deep_interest.models.item_knn as module

    monkeypatch.setattr(module, "batches", lambda s, rows: ((c, s.batch(c)) for c in rows.split(size)))
    model = fitted(samples)
    assert torch.equal(model.keys, expected.keys)
    torch.testing.assert_close(model.weights, expected.weights)


def test_it_uses_the_outcome_of_a_related_item():
    """The candidate is liked if its neighbour, the item of the same pair, was rated 3, and not if it was rated 1."""
    rng = np.random.default_rng(0)

    def likes(n, users):
        candidate = rng.integers(1, 9, n)
        partner = (candidate - 1 ^ 1) + 1
        ratings, others = rng.choice([1, 3], n), rng.integers(1, 9, n)
        others = np.where(others == partner, candidate, others)
        histories = {
            "item_id": np.stack([partner, others], 1).tolist(), "category": [[1, 1]] * n,
            "rating": np.stack([ratings, rng.choice([1, 3], n)], 1).tolist(), "action": [[1, 1]] * n,
        }  # fmt: skip
        flips = rng.random(n) < 0.2
        return SamplesInMemory(
            {"item_id": candidate, "category": np.ones(n, int)},
            histories,
            (ratings == 3) ^ flips,
            user=rng.integers(1, users, n),
        )

    model, test = fitted(likes(3000, 100)), likes(600, 20)
    scores = model(test.batch(torch.arange(600))).logits.numpy()
    assert gauc(test.user.numpy(), test.labels.numpy().astype(np.int8), scores).value > 0.75


def test_a_state_with_other_neighbourhoods_is_loaded():
    samples = random_samples(200)
    model, loaded = fitted(samples), build()
    loaded.load_state_dict(model.state_dict())
    batch = samples.batch(torch.arange(200))
    assert torch.equal(loaded(batch).logits, model(batch).logits)
    loaded.load_state_dict(fitted(random_samples(9, seed=4), neighbors=1).state_dict())
    assert len(loaded.keys) < 10


def test_without_histories_the_logit_is_that_of_the_rate():
    samples = random_samples(100)
    samples.histories = {name: [[]] * 100 for name in samples.histories}
    model = fitted(samples)
    beta, p = model.coefficients, model.rates[samples.candidate["item_id"].long()]
    torch.testing.assert_close(
        model(samples.batch(torch.arange(100))).logits, beta[0] + beta[1] * torch.logit(p)
    )


def test_behaviours_without_item_ids_are_an_error():
    message = "^features.behavior: item_knn compares the items of the history with the candidate, but the fields of a behaviour are category; add item_id, or remove item_knn from models$"
    with pytest.raises(InputError, match=message):
        build(FeatureSchema(item=ITEM, behavior=(ITEM[1],)))
