"""Attention weights and leave-one-out effects against direct computations."""

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
def test_attention_weights_reproduce_the_user_vector(key, options):
    model, batch = model_of(key, **options), SAMPLES.batch(LONG)
    attention = behavior_attention(model, batch)
    history, candidate = model.embed(batch)
    if key == "dien":
        history = model.evolution_gru(model.extractor(history, batch.histories), batch.histories)
    if options.get("positions"):
        history = history + model.positions[(1 + batch.histories.distances).clamp(max=5)]
    rows = batch.pairs.positions.numpy() if batch.owner is not None else np.arange(len(history))
    vectors = history.detach().numpy()[rows]
    pooled = np.stack(
        [attention.weight[attention.sample == b] @ vectors[attention.sample == b] for b in range(batch.size)]
    )
    expected = model.represent(model.embed(batch)[0], candidate, batch).vector.detach().numpy()
    np.testing.assert_allclose(pooled, expected, rtol=1e-4, atol=1e-6)


def test_behaviours_of_a_shared_history_are_listed_for_each_sample():
    batch = SAMPLES.batch(LONG)
    assert batch.owner is not None and len(batch.offsets) - 1 < batch.size
    attention = behavior_attention(model_of("din"), batch)
    for sample, owner in enumerate(batch.owner.tolist()):
        history = batch.history["item_id"][batch.offsets[owner] : batch.offsets[owner + 1]]
        assert attention.behavior["item_id"][attention.sample == sample].tolist() == history.tolist()


def test_last_interest_state_is_the_user_vector():
    model, batch = model_of("dien", evolution="augru"), SAMPLES.batch(LONG)
    attention, states = interest_states(model, batch)
    expected = model.represent(*model.embed(batch), batch).vector.detach().numpy()
    np.testing.assert_allclose(states[attention.steps_back == 0], expected, rtol=1e-5)
    for sample in range(batch.size):
        assert np.isclose(attention.weight[attention.sample == sample].sum(), 1, atol=1e-5)


@pytest.mark.parametrize("key", ["base", "din", "dien", "bst", "lr"])
def test_effect_is_the_drop_of_the_log_odds_without_the_behaviour(key):
    config = model_config(
        key, {} if key == "lr" else {"embedding_dim": 4, "hidden": (8,), "embedding_std": 0.5}
    )
    torch.manual_seed(0)
    model = build_model(key, config, DATA.features.schema).eval()
    batch = SAMPLES.batch(LONG[:1])
    log_odds, effects = leave_one_out_effects(model, batch)
    length = int(batch.offsets[-1])
    assert effects.shape == (length,)
    for removed in (0, length - 1):
        rest = [row for row in range(length) if row != removed]
        without = SAMPLES.batch(LONG[:1])
        without.history = {name: codes[rest] for name, codes in without.history.items()}
        without.offsets = torch.tensor([0, length - 1])
        with torch.no_grad():
            assert effects[removed] == pytest.approx(log_odds - float(model(without).logits), abs=1e-5)
    assert predict_ctr(model, batch)[0] == pytest.approx(1 / (1 + np.exp(-log_odds)), rel=1e-5)


def test_empty_history_has_no_effects():
    batch = single_sample_batch(SAMPLES, 3, 0, 5)
    assert len(leave_one_out_effects(model_of("din"), batch)[1]) == 0


def test_single_sample_batch_equals_the_test_sample():
    row = int(LONG[0])
    batch = single_sample_batch(
        SAMPLES, int(SAMPLES.user[row]), int(SAMPLES.history_end[row]), int(SAMPLES.item[row])
    )
    same = SAMPLES.batch(LONG[:1])
    assert all(torch.equal(batch.history[name], same.history[name]) for name in same.history)
    assert all(torch.equal(batch.candidate[name], same.candidate[name]) for name in same.candidate)


def test_has_attention_is_false_for_models_without_weights():
    assert has_attention(model_of("din")) and has_attention(model_of("dien"))
    assert not has_attention(model_of("base"))
