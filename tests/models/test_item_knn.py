"""Item kNN against its equations with loops over samples and behaviours."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.training_samples import SamplesInMemory

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import gauc
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.popularity import item_rates, prior_strength
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


def outcomes_of(samples, trained_on, schema):
    """Outcomes of every behaviour of every sample, one array ``(length, own fields)`` per sample."""
    items, columns = samples.histories["item_id"], []
    for field in schema.own:
        codes, total, hits = samples.histories[field.name], np.zeros(field.size), np.zeros(field.size)
        for s in trained_on:
            for code in codes[s]:
                total[code] += 1
                hits[code] += samples.labels[s].item()
        rate = hits.sum() / total.sum()
        a = prior_strength(torch.from_numpy(hits), torch.from_numpy(total))
        if a == 1e6:
            columns.append([np.zeros(len(codes[s])) for s in range(len(samples))])
            continue
        value = (hits + a * rate) / (total + a) - rate
        by_item = defaultdict(list)
        for s in trained_on:
            for j, code in zip(items[s], codes[s], strict=True):
                by_item[j].append(value[code])
        mean = defaultdict(float, {j: sum(values) / (len(values) + 5) for j, values in by_item.items()})
        spread = np.sqrt(np.mean([(v - mean[j]) ** 2 for j, values in by_item.items() for v in values]))
        columns.append(
            [
                np.array(
                    [(value[code] - mean[j]) / spread for j, code in zip(items[s], codes[s], strict=True)]
                )
                for s in range(len(samples))
            ]
        )
    results = []
    for s in range(len(samples)):
        o = np.stack([column[s] for column in columns], 1) if columns else np.zeros((len(items[s]), 0))
        results.append(o - o.sum(0) / (len(o) + 3))
    return results


def design(samples, outcomes, trained_on, *, shrinkage, normalize):
    """The columns of all samples, from the equations of the docstring with the samples ``trained_on``."""
    item, labels = samples.candidate["item_id"].tolist(), samples.labels.tolist()
    histories, own = samples.histories["item_id"], outcomes[0].shape[1]
    counts, positives = np.zeros(9), np.zeros(9)
    for s in trained_on:
        counts[item[s]] += 1
        positives[item[s]] += labels[s]
    a = prior_strength(torch.from_numpy(positives), torch.from_numpy(counts))
    p = (positives + a * positives.sum() / counts.sum()) / (counts + a)

    residual, number, together, products = (defaultdict(float) for _ in range(4))
    newest, squares = np.zeros(9), np.zeros((9, own))
    for s in trained_on:
        for j in histories[s]:
            residual[item[s], j] += labels[s] - p[item[s]]
            number[item[s], j] += 1
        if histories[s]:
            i = histories[s][-1]
            newest[i] += 1
            squares[i] += outcomes[s][-1] ** 2
            for k, j in enumerate(histories[s][:-1]):
                together[i, j] += 1
                products[i, j] = products[i, j] + outcomes[s][-1] * outcomes[s][k]
    n = newest + shrinkage
    v = squares + shrinkage * squares.sum(0) / newest.sum()
    rows = []
    for s in range(len(samples)):
        i, sums = item[s], np.zeros(2 + 2 * own)
        for k, j in enumerate(histories[s]):
            label = residual[i, j] / (number[i, j] + shrinkage)
            c = (together[i, j] + together[j, i]) / np.sqrt(n[i] * n[j])
            x = (products[i, j] + products[j, i]) / np.sqrt(v[i] * v[j])
            sums += np.concatenate([[label, c], c * outcomes[s][k], x * outcomes[s][k]])
        rows.append([1, np.log(p[i] / (1 - p[i])), *(sums / max(len(histories[s]), 1) ** normalize)])
    return np.array(rows)


@pytest.mark.parametrize("schema", [PLAIN, SCHEMA], ids=["no own fields", "own fields"])
@pytest.mark.parametrize(("shrinkage", "normalize"), [(10.0, 0.5), (3.0, 0.0)])
def test_scores_and_coefficients_are_those_of_the_equations(schema, shrinkage, normalize):
    samples, options = random_samples(150, schema=schema), {"shrinkage": shrinkage, "normalize": normalize}
    if schema.own:  # outcomes that separate the labels
        sums = [sum(r) + 3 * sum(a) for r, a in zip(*(samples.histories[f.name] for f in OWN), strict=True)]
        lengths = [len(codes) for codes in samples.histories["rating"]]
        samples.labels = torch.tensor([s > 4.5 * n for s, n in zip(sums, lengths, strict=True)]).float()
    model = fitted(samples, schema, **options)
    held_out = samples.user.numpy() % 10 == 0
    beta, used = model.coefficients.numpy(), np.flatnonzero(~held_out)
    outcomes = outcomes_of(samples, used, schema)
    assert all(np.concatenate(outcomes).any(0))
    x = design(samples, outcomes, used, **options)[held_out]
    prior = np.zeros(len(beta))
    prior[1] = 1
    residuals = samples.labels.numpy()[held_out] - 1 / (1 + np.exp(-x @ beta))
    np.testing.assert_allclose(x.T @ residuals - (beta - prior), 0, atol=1e-8)
    expected = design(samples, outcomes, range(150), **options) @ beta
    np.testing.assert_allclose(model(samples.batch(torch.arange(150))).logits.numpy(), expected, rtol=1e-8)


def test_similarities_by_hand():
    """Item 1 has 3 positives of 8; with item 2 in the history 3 of 4; λ = 2. Item 3 follows item 2 in four histories."""
    histories = {"item_id": [[2, 3]] * 4 + [[3]] * 4, "category": [[1, 1]] * 4 + [[1]] * 4}
    labels = [1, 1, 1, 0, 0, 0, 0, 0]
    samples = SamplesInMemory({"item_id": [1] * 8, "category": [1] * 8}, histories, labels, user=[1] * 8)
    model = fitted(samples, PLAIN, shrinkage=2)
    weights = dict(zip(model.label_keys.tolist(), model.label_weights[:, 0].tolist(), strict=True))
    assert weights == pytest.approx(
        {9 + 2: (3 - 4 * 3 / 8) / (4 + 2), 9 + 3: (3 - 8 * 3 / 8) / (8 + 2)}, abs=1e-6
    )
    similarities = dict(zip(model.keys.tolist(), model.similarities[:, 0].tolist(), strict=True))
    assert similarities == pytest.approx({3 * 9 + 2: 4 / np.sqrt((8 + 2) * (0 + 2))}, rel=1e-6)


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
def test_coefficients_are_fitted_on_columns_without_the_held_out_users(seed):
    """Labels and behaviours of other held-out users are replaced: the columns of a held-out user stay the same, bit for bit."""
    samples, recorded = random_samples(80, seed=seed), []
    held_out = np.flatnonzero(samples.user.numpy() % 10 == 0)
    if not len(held_out):
        return

    def columns_of_first(model):
        own = torch.from_numpy(held_out[:1])
        model._fit_coefficients = lambda s, rows: recorded.append(model._columns(samples.batch(own)))
        model.fit(samples)

    columns_of_first(build())
    samples.labels[held_out] = 1 - samples.labels[held_out]
    rng = np.random.default_rng(seed)
    for row in held_out[1:]:
        for field in SCHEMA.behavior:
            samples.histories[field.name][row] = rng.integers(0, field.size, 5).tolist()
    columns_of_first(build())
    assert torch.equal(*recorded)


def test_outcomes_are_zero_where_each_positive_has_a_negative_with_its_history():
    samples = random_samples(100)
    samples.labels = torch.arange(100) % 2.0
    for lists in samples.histories.values():
        lists[1::2] = lists[::2]
    model = fitted(samples)
    assert not model.outcomes(samples.batch(torch.arange(100))).any()
    assert model(samples.batch(torch.arange(100))).logits.isfinite().all()


def test_samples_that_share_a_history_count_its_behaviours_once():
    samples = random_samples(40)
    batch = samples.batch(torch.arange(40))
    twice = torch.arange(40).repeat_interleave(2)

    class Shared:
        labels, user = samples.labels[twice], samples.user[twice]

        def __len__(self):
            return 80

        def candidates(self):
            return {name: codes[twice] for name, codes in samples.candidate.items()}

        def batch(self, rows):
            histories, owner = torch.unique_consecutive(twice[rows], return_inverse=True)
            base = samples.batch(histories)
            codes = {name: values[twice[rows]] for name, values in samples.candidate.items()}
            return replace(base, candidate=codes, labels=self.labels[rows], owner=owner)

    once, shared = fitted(samples), build()
    shared.fit(Shared())
    torch.testing.assert_close(shared.keys, once.keys)
    torch.testing.assert_close(shared.similarities[:, 0], once.similarities[:, 0])
    assert not torch.allclose(shared.label_weights, once.label_weights)
    assert shared(batch).logits.isfinite().all()


def test_only_the_strongest_neighbours_are_kept():
    samples = random_samples(300)
    everything, few = fitted(samples), fitted(samples, neighbors=2)
    assert torch.bincount(few.keys // 9).tolist() == torch.bincount(few.label_keys // 9).tolist() == [2] * 9
    by_key = dict(zip(everything.keys.tolist(), everything.similarities[:, 0].tolist(), strict=True))
    for item in range(9):
        kept = [key for key in few.keys.tolist() if key // 9 == item]
        others = [key for key in by_key if key // 9 == item and key not in kept]
        assert min(by_key[key] for key in kept) > 0
        assert len(others) > 0


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_the_size_of_the_batches_does_not_matter(size, monkeypatch):
    samples = random_samples(60)
    expected = fitted(samples)
    import deep_interest.models.item_knn as module

    monkeypatch.setattr(module, "batches", lambda s, rows: ((c, s.batch(c)) for c in rows.split(size)))
    model = fitted(samples)
    assert torch.equal(model.keys, expected.keys)
    torch.testing.assert_close(model.similarities, expected.similarities)
    torch.testing.assert_close(model.label_weights, expected.label_weights)


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


def test_behaviours_without_item_ids_are_compared_by_their_first_shared_field():
    """Ads whose history has only categories: rates are those of the ads, similarities those of the categories."""
    schema = FeatureSchema(item=ITEM, behavior=(ITEM[1], OWN[0]))
    samples = random_samples(200, schema=schema)
    model = fitted(samples, schema)
    rates = item_rates(samples.candidate["item_id"].long(), samples.labels.double(), items=9)
    torch.testing.assert_close(model.rates, rates)
    assert int(model.keys.max()) < 4 * 4
    assert model(samples.batch(torch.arange(200))).logits.isfinite().all()


def test_behaviours_that_share_no_one_hot_field_are_an_error():
    genres = Field(name="genres", size=6, pooling="sum")
    message = (
        "^features.behavior: item_knn compares the items of the history with the candidate, but behaviours share no one-hot field "
        "with it; add item_id or another item field, or remove item_knn from models$"
    )
    with pytest.raises(InputError, match=message):
        build(FeatureSchema(item=(ITEM[0], genres), behavior=(genres,)))
