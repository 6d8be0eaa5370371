"""What a prediction rests on, against sums made by hand."""

import numpy as np
import pytest
import torch
from support.training import sample_set, small_data

from deep_interest.analysis.attribution import (
    behavior_attention,
    has_attention,
    interest_states,
    leave_one_out_effects,
    predict_ctr,
    single_sample_batch,
)
from deep_interest.models.registry import build_model, model_config

DATA = small_data()
SAMPLES = sample_set(DATA)
LONG = torch.from_numpy(np.flatnonzero(SAMPLES.history_end.numpy() >= 4)[:6])


def model_of(key, **options):
    torch.manual_seed(0)
    config = model_config(key, {"embedding_dim": 4, "hidden": (8,), "embedding_std": 0.5, **options})
    return build_model(key, config, DATA.features.schema).eval()


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("din", {}),
        ("din", {"normalize": "softmax"}),
        ("din", {"positions": 5}),
        ("dien", {"evolution": "attention"}),
    ],
)
def test_attention_weights_are_those_that_the_interest_is_made_with(key, options):
    model, batch = model_of(key, **options), SAMPLES.batch(LONG)
    pairs = behavior_attention(model, batch)
    history, candidate = model.embed(batch)
    if key == "dien":
        history = model.evolution_gru(model.extractor(history, batch.histories), batch.histories)
    if options.get("positions"):
        history = history + model.positions[(1 + batch.histories.distances).clamp(max=5)]
    rows = batch.pairs.places.numpy() if batch.owner is not None else np.arange(len(history))
    vectors = history.detach().numpy()[rows]
    pooled = np.stack(
        [pairs.weight[pairs.sample == b] @ vectors[pairs.sample == b] for b in range(batch.size)]
    )
    made = model.represent(model.embed(batch)[0], candidate, batch).vector.detach().numpy()
    np.testing.assert_allclose(pooled, made, rtol=1e-4, atol=1e-6)


def test_the_path_of_an_interest_ends_in_the_users_vector():
    model, batch = model_of("dien", evolution="augru"), SAMPLES.batch(LONG)
    pairs, states = interest_states(model, batch)
    made = model.represent(*model.embed(batch), batch).vector.detach().numpy()
    np.testing.assert_allclose(states[pairs.back == 0], made, rtol=1e-5)
    for sample in range(batch.size):
        assert np.isclose(pairs.weight[pairs.sample == sample].sum(), 1, atol=1e-5)


@pytest.mark.parametrize("key", ["base", "din", "dien", "bst", "lr"])
def test_an_effect_is_what_the_log_odds_lose_without_the_behaviour(key):
    config = model_config(
        key, {} if key == "lr" else {"embedding_dim": 4, "hidden": (8,), "embedding_std": 0.5}
    )
    torch.manual_seed(0)
    model = build_model(key, config, DATA.features.schema).eval()
    batch = SAMPLES.batch(LONG[:1])
    whole, found = leave_one_out_effects(model, batch)
    length = int(batch.offsets[-1])
    assert found.shape == (length,)
    for place in (0, length - 1):
        rest = [row for row in range(length) if row != place]
        without = SAMPLES.batch(LONG[:1])
        without.history = {name: codes[rest] for name, codes in without.history.items()}
        without.offsets = torch.tensor([0, length - 1])
        with torch.no_grad():
            assert found[place] == pytest.approx(whole - float(model(without).logits), abs=1e-5)
    assert predict_ctr(model, batch)[0] == pytest.approx(1 / (1 + np.exp(-whole)), rel=1e-5)


def test_an_empty_history_has_no_effects():
    batch = single_sample_batch(SAMPLES, 3, 0, 5)
    assert len(leave_one_out_effects(model_of("din"), batch)[1]) == 0


def test_a_sample_made_by_hand_is_the_one_of_the_table():
    row = int(LONG[0])
    batch = single_sample_batch(
        SAMPLES, int(SAMPLES.user[row]), int(SAMPLES.history_end[row]), int(SAMPLES.item[row])
    )
    same = SAMPLES.batch(LONG[:1])
    assert all(torch.equal(batch.history[name], same.history[name]) for name in same.history)
    assert all(torch.equal(batch.candidate[name], same.candidate[name]) for name in same.candidate)


def test_rows_without_a_weight_for_each_behaviour_have_no_attention():
    assert has_attention(model_of("din")) and has_attention(model_of("dien"))
    assert not has_attention(model_of("base"))
