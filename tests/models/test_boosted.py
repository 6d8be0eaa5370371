"""Boosted: its columns by hand and against loops, no label in its own row, and its trees in a checkpoint."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.training_samples import SamplesInMemory

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import auc
from deep_interest.logs.schema import FeatureSchema, Field, Sequence
from deep_interest.models.batch import ValueSetLookup
from deep_interest.models.boosted import FOLDS
from deep_interest.models.boosted_features import MISSING, BoostedFeatures, count_labels, rate_sizes
from deep_interest.models.history_counts import Pairs, Rates
from deep_interest.models.registry import build_model, model_config

ITEM = (Field(name="item_id", size=9), Field(name="category", size=4))
RATING = Field(name="rating", size=4)
SCHEMA = FeatureSchema(
    item=ITEM,
    behavior=(*ITEM, RATING),
    profile=(Field(name="gender", size=3),),
    context=(Field(name="slot", size=40),),
)


def random_samples(n, *, seed=0, users=30, schema=SCHEMA):
    rng = np.random.default_rng(seed)

    def codes(fields):
        return {field.name: rng.integers(0, field.size, n) for field in fields}

    lengths = rng.integers(0, 9, n)
    histories = {
        field.name: [rng.integers(0, field.size, length).tolist() for length in lengths]
        for field in schema.behavior
    }
    return SamplesInMemory(
        codes(schema.item), histories, rng.integers(0, 2, n), user=rng.integers(1, users, n),
        profile=codes(schema.profile), context=codes(schema.context),
    )  # fmt: skip


def rates_of(samples, folds, number_of_folds, schema=SCHEMA):
    tables = {key: Rates(size, number_of_folds) for key, size in rate_sizes(schema).items()}
    count_labels(tables, samples.batch(torch.arange(len(samples))), schema, folds)
    return {key: table.without_each_fold() for key, table in tables.items()}


def columns_of(samples, folds, schema=SCHEMA):
    rates = rates_of(samples, folds, FOLDS, schema)
    counts = {
        field.name: np.bincount(samples.candidate[field.name], minlength=field.size) for field in schema.item
    }
    return BoostedFeatures(schema, rates, counts)(samples.batch(torch.arange(len(samples))), folds)


def fitted(samples, *, seed=3, schema=SCHEMA, **options):
    torch.manual_seed(seed)
    model = build_model("boosted", model_config("boosted", options), schema)
    model.fit(samples)
    return model


def by_hand():
    """Two samples of item 2 in category 1; the histories are written oldest first."""
    histories = {
        "item_id": [[2, 3, 2, 5, 4, 7], []],
        "category": [[1, 1, 1, 2, 0, 2], []],
        "rating": [[1, 3, 2, 1, 3, 0], []],
    }
    return SamplesInMemory(
        {"item_id": [2, 2], "category": [1, 1]}, histories, [1, 0], user=[1, 2],
        profile={"gender": [2, 1]}, context={"slot": [7, 39]},
    )  # fmt: skip


def test_matches_by_recency_and_outcome_are_counted_by_hand():
    columns = columns_of(by_hand(), np.array([0, 1]))
    expected = {
        "history length": 6,
        "matches in item_id: all": 2, "matches in item_id: newest 1": 0, "matches in item_id: newest 5": 1,
        "matches in item_id: newest 20": 2, "matches in item_id: age of newest": 3,
        "matches in item_id: rating of newest": 2, "matches in item_id: rating is 1": 1,
        "matches in item_id: rating is 2": 1, "matches in item_id: rating is 3": 0,
        "matches in category: all": 3, "matches in category: newest 1": 0, "matches in category: newest 5": 2,
        "matches in category: newest 20": 3, "matches in category: age of newest": 3,
        "matches in category: rating of newest": 2, "matches in category: rating is 1": 1,
        "matches in category: rating is 2": 1, "matches in category: rating is 3": 1,
        "newest behaviour: rating": 0, "profile gender: code": 2,
        "item item_id: samples": 2, "item category: samples": 2,
    }  # fmt: skip
    assert {name: columns[name][0] for name in expected} == expected
    empty = {name: columns[name][1] for name in columns}
    assert empty["history length"] == empty["matches in category: all"] == 0
    assert empty["matches in category: age of newest"] == MISSING
    assert empty["newest behaviour: rating"] == MISSING
    assert empty["history: mean rate of rating"] == MISSING


def test_a_rate_excludes_its_fold_by_hand():
    """Code 1: 3 positives of 4 in fold 0, 1 of 6 in fold 1; code 2: 2 of 5 in fold 1 alone."""
    table = Rates(4, 2)
    folds = np.array([0] * 4 + [1] * 11)
    codes = np.array([1] * 4 + [1] * 6 + [2] * 5)
    table.add(folds, codes, np.array([1.0] * 3 + [0] + [1] + [0] * 5 + [1] * 2 + [0] * 3))
    without_0, without_1, everything = table.without_each_fold()
    # without fold 0 the rates of 6 and 5 samples, 1/6 and 2/5, differ by no more than chance: the mean 3/11 of them
    np.testing.assert_allclose(without_0, [3 / 11] * 4, rtol=1e-5)
    # without fold 1 there is one code: its own mean, 3/4
    np.testing.assert_allclose(without_1, [3 / 4] * 4, rtol=1e-5)
    np.testing.assert_allclose(everything[[0, 3]], [6 / 15] * 2, rtol=1e-5)


def test_columns_equal_those_of_loops_over_samples_and_behaviours():
    samples = random_samples(200)
    folds = samples.user.numpy() % FOLDS
    columns, rates = columns_of(samples, folds), rates_of(samples, folds, FOLDS)
    for b in range(len(samples)):
        history = {name: lists[b] for name, lists in samples.histories.items()}
        ratings, n = history["rating"], len(history["rating"])
        of_fold = {key: values[folds[b]] for key, values in rates.items()}
        expected = {"history length": n}
        for field in ITEM:
            code = int(samples.candidate[field.name][b])
            matching = [j for j in range(n) if history[field.name][j] == code != 0]
            name = f"matches in {field.name}"
            expected |= {
                f"item {field.name}: rate": of_fold[f"item_{field.name}"][code],
                f"{name}: all": len(matching),
                f"{name}: age of newest": n - 1 - matching[-1] if matching else MISSING,
                f"{name}: rating of newest": ratings[matching[-1]] if matching else MISSING,
                f"{name}: mean rate of rating": np.mean(
                    [of_fold[f"{field.name}_by_rating"][ratings[j]] for j in matching] or [MISSING]
                ),
            }
            for window in (1, 5, 20):
                expected[f"{name}: newest {window}"] = sum(j >= n - window for j in matching)
            for rating in (1, 2, 3):
                expected[f"{name}: rating is {rating}"] = sum(ratings[j] == rating for j in matching)
        mean_rate = np.mean([of_fold["history_by_rating"][code] for code in ratings] or [MISSING])
        expected |= {
            "history: mean rate of rating": mean_rate,
            "newest behaviour: rating": ratings[-1] if n else MISSING,
            "profile gender: code": int(samples.profile["gender"][b]),
            "context slot: rate": of_fold["context_slot"][int(samples.context["slot"][b])],
        }
        found = {name: columns[name][b] for name in expected}
        np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-6, err_msg=str(b))
        assert set(columns) == {*expected, "item item_id: samples", "item category: samples"}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16), st.data())
@pytest.mark.slow
def test_no_row_sees_the_labels_of_its_user(seed, data):
    """Labels of one user are replaced: the columns of this user stay the same, bit for bit."""
    samples = random_samples(60, seed=seed)
    folds = samples.user.numpy() % FOLDS
    before = columns_of(samples, folds)
    user = data.draw(st.sampled_from(samples.user.tolist()))
    own = samples.user == user
    samples.labels[own] = torch.tensor(
        data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=int(own.sum()), max_size=int(own.sum())))
    )
    after = columns_of(samples, folds)
    for name, column in before.items():
        np.testing.assert_array_equal(column[own.numpy()], after[name][own.numpy()], err_msg=name)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16))
@pytest.mark.slow
def test_the_order_of_the_samples_does_not_change_their_columns(seed):
    samples = random_samples(50, seed=seed)
    folds = samples.user.numpy() % FOLDS
    order = np.random.default_rng(seed).permutation(50)
    shuffled = SamplesInMemory(
        {name: codes[order] for name, codes in samples.candidate.items()},
        {name: [lists[row] for row in order] for name, lists in samples.histories.items()},
        samples.labels[order], user=samples.user[order],
        profile={name: codes[order] for name, codes in samples.profile.items()},
        context={name: codes[order] for name, codes in samples.context.items()},
    )  # fmt: skip
    before, after = columns_of(samples, folds), columns_of(shuffled, folds[order])
    for name, column in before.items():
        np.testing.assert_allclose(column[order], after[name], rtol=1e-6, err_msg=name)


def test_a_multi_hot_field_matches_by_the_share_of_the_candidates_values():
    """Value sets: 1 = {1, 2}, 2 = {2, 3, 4}, 3 = {5}, 4 = unknown; the candidate has set 1, then set 2, then 4."""
    genres = Field(name="genres", size=6, pooling="sum")
    schema = FeatureSchema(item=(ITEM[0], genres), behavior=(ITEM[0], genres))
    lookup = ValueSetLookup(
        torch.tensor([0, 1, 3, 6, 7, 8]), torch.tensor([0, 1, 2, 2, 3, 4, 5, 0], dtype=torch.int32)
    )
    samples = SamplesInMemory(
        {"item_id": [1, 2, 3], "genres": [1, 2, 4]},
        {"item_id": [[1] * 4, [1] * 2, [1]], "genres": [[1, 2, 3, 4], [1, 2], [4]]},
        [1, 0, 1], value_sets={"genres": lookup},
    )  # fmt: skip
    pairs = Pairs(samples.batch(torch.arange(3)))
    np.testing.assert_allclose(pairs.matches(genres), [1, 1 / 2, 0, 0, 1 / 3, 1, 0])
    columns = columns_of(samples, np.arange(3), schema)
    np.testing.assert_allclose(columns["matches in genres: all"], [1.5, 4 / 3, 0])


def test_a_further_sequence_has_matches_and_rates_of_its_own():
    actions = Field(name="action", size=3)
    schema = SCHEMA.model_copy(update={"sequences": {"carts": Sequence(behavior=(*ITEM, actions))}})
    samples = by_hand()
    batch = samples.batch(torch.arange(2))
    carts = SamplesInMemory(
        samples.candidate, {"item_id": [[2], [5]], "category": [[1], [1]], "action": [[1], [2]]}, samples.labels,
        profile=samples.profile, context=samples.context,
    )  # fmt: skip
    batch.sequences = {"carts": carts.batch(torch.arange(2))}
    folds = np.array([0, 1])
    rates = {key: Rates(size, 2) for key, size in rate_sizes(schema).items()}
    count_labels(rates, batch, schema, folds)
    table = {key: rate.without_each_fold() for key, rate in rates.items()}
    counts = {field.name: np.zeros(field.size) for field in ITEM}
    columns = BoostedFeatures(schema, table, counts)(batch, folds)
    assert columns["matches in item_id: all"].tolist() == [2, 0]
    assert columns["carts: matches in item_id: all"].tolist() == [1, 0]
    assert columns["carts: matches in category: action is 2"].tolist() == [0, 1]
    assert columns["carts: history length"].tolist() == [1, 1]
    assert rates["carts_category_by_action"].positives.tolist() == [[0, 1, 0], [0, 0, 0]]
    assert rates["carts_category_by_action"].samples.tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.slow
def test_it_learns_that_highly_rated_behaviours_of_the_category_count():
    samples = random_samples(4000)
    hits = [
        sum(c == candidate and r == 3 for c, r in zip(categories, ratings, strict=True)) > 0
        for candidate, categories, ratings in zip(
            samples.candidate["category"].tolist(),
            samples.histories["category"],
            samples.histories["rating"],
            strict=True,
        )
    ]
    known = samples.candidate["category"] > 0
    samples.labels = (torch.tensor(hits) & known).float()
    model, test = fitted(samples), random_samples(500, seed=9)
    labels = [
        any(c == candidate != 0 and r == 3 for c, r in zip(categories, ratings, strict=True))
        for candidate, categories, ratings in zip(
            test.candidate["category"].tolist(),
            test.histories["category"],
            test.histories["rating"],
            strict=True,
        )
    ]
    assert auc(np.array(labels, np.int8), model(test.batch(torch.arange(500))).logits.numpy()) > 0.99


@pytest.mark.slow
def test_a_state_predicts_the_same_after_loading():
    samples = random_samples(600)
    model, batch = fitted(samples), samples.batch(torch.arange(100))
    loaded = build_model("boosted", model_config("boosted", {}), SCHEMA)
    loaded.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    assert torch.equal(loaded(batch).logits, model(batch).logits)
    other = fitted(random_samples(600, seed=5))
    loaded.load_state_dict(other.state_dict())
    assert torch.equal(loaded(batch).logits, other(batch).logits)


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_batch():
    model, test = fitted(random_samples(600)), random_samples(50, seed=1)
    together = model(test.batch(torch.arange(50))).logits
    assert torch.equal(
        together, torch.cat([model(test.batch(torch.tensor([row]))).logits for row in range(50)])
    )


@pytest.mark.slow
def test_the_seed_chooses_the_samples_of_the_trees():
    samples = random_samples(900)
    states = [fitted(samples, seed=seed, max_samples=300).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["trees"], states[2]["trees"])
    assert torch.equal(states[0]["rate_item_item_id"], states[2]["rate_item_item_id"])


SCRIPT = """
import sys; sys.path[:0] = {path!r}
import hashlib, torch
from test_boosted import fitted, random_samples
print(hashlib.sha256(fitted(random_samples(600)).trees.numpy().tobytes()).hexdigest())
"""


@pytest.mark.nightly
def test_another_process_writes_the_same_bytes():
    import hashlib
    from pathlib import Path

    script = SCRIPT.format(path=[str(Path(__file__).parent), *sys.path])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip() == hashlib.sha256(fitted(random_samples(600)).trees.numpy().tobytes()).hexdigest()
    )


@pytest.mark.slow
def test_bytes_that_are_not_trees_are_rejected_and_not_executed(tmp_path):
    import pickle

    class Malicious:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    model = fitted(random_samples(600))
    state, batch = model.state_dict(), random_samples(5).batch(torch.arange(5))
    for content in (pickle.dumps(Malicious()), b"", state["trees"].numpy().tobytes()[:-100]):
        loaded = build_model("boosted", model_config("boosted", {}), SCHEMA)
        loaded.load_state_dict(
            state | {"trees": torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)}
        )
        with pytest.raises(
            InputError,
            match=r"^boosted: the trees of the checkpoint cannot be read .*; train the model again$",
        ):
            loaded(batch)
    assert not (tmp_path / "executed").exists()


@pytest.mark.slow
def test_a_column_without_any_value_is_no_obstacle():
    samples = random_samples(300)
    samples.candidate["item_id"] = torch.zeros(300, dtype=torch.int32)  # matches nothing
    assert fitted(samples)(samples.batch(torch.arange(300))).logits.isfinite().all()


def test_labels_that_are_all_equal_are_an_error():
    samples = random_samples(50)
    samples.labels[:] = 1
    with pytest.raises(
        InputError,
        match=r"^boosted: all 50 training labels are 1; provide samples with both labels, or remove ",
    ):
        fitted(samples)


@pytest.mark.slow
def test_few_samples_of_one_user_are_enough():
    samples = random_samples(12, users=2)
    assert fitted(samples)(samples.batch(torch.arange(12))).logits.isfinite().all()
