"""What DIEN and DIN show of themselves: the weight of each behaviour and the evolving interest; the hash of crossed features."""

import numpy as np
import pytest
import torch
from support import reference
from support.batches import SCHEMA, random_batch, sharing_batches

from deep_interest.models.auxiliary import AuxiliaryConfig, AuxiliaryLoss
from deep_interest.models.registry import build_model, model_config

SMALL = {"embedding_dim": 4, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
LENGTHS = [3, 0, 1, 7, 2]
EVOLUTIONS = ["attention", "aigru", "agru", "augru", "augru_code"]


def build(key, options):
    torch.manual_seed(0)
    model = build_model(key, model_config(key, options, common=SMALL), SCHEMA).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("evolution", EVOLUTIONS)
def test_the_weights_and_states_of_dien_agree_with_the_equations(evolution):
    model, batch = build("dien", {"evolution": evolution, "gru_size": 3}), random_batch(LENGTHS)
    p = reference.parameters(model)
    weights, states = model.interest_evolution(batch)
    torch.testing.assert_close(model.attention_weights(batch), weights, rtol=0, atol=0)
    cell = {"attention": "gru", "aigru": "gru"}.get(evolution, evolution)
    for b, behaviors in enumerate(reference.histories(p, batch, SCHEMA)):
        span = slice(int(batch.offsets[b]), int(batch.offsets[b + 1]))
        inputs = reference.gru_states(p, "extractor", behaviors)
        if evolution == "attention":
            inputs = reference.gru_states(p, "evolution_gru", inputs)
        candidate = reference.embed(p, batch.candidate, SCHEMA.item, b)
        attention = reference.softmax(np.array([h @ p["attention.weight"] @ candidate for h in inputs]))
        np.testing.assert_allclose(weights[span].detach(), attention, atol=1e-9)
        if evolution == "aigru":
            inputs = [a * h for a, h in zip(attention, inputs, strict=True)]
        if evolution != "attention":
            gate = None if cell == "gru" else attention
            inputs = reference.gru_states(p, "evolution_gru", inputs, cell, gate)
        np.testing.assert_allclose(states[span].detach(), np.reshape(inputs, (-1, 3)), atol=1e-9)


@pytest.mark.parametrize("evolution", EVOLUTIONS)
def test_the_evolution_of_a_shared_history_is_each_samples_own(evolution):
    model = build("dien", {"evolution": evolution})
    shared, own = sharing_batches(LENGTHS, [0, 0, 2, 3, 3, 4])
    torch.testing.assert_close(model.interest_evolution(shared), model.interest_evolution(own))


@pytest.mark.parametrize("options", [{}, {"normalize": "softmax"}, {"normalize": "softmax", "positions": 2}])
def test_the_weights_of_din_pool_the_behaviours_to_the_users_vector(options):
    model, batch = build("din", options), random_batch(LENGTHS)
    weights = model.attention_weights(batch)
    history, candidate = model.embed(batch)
    seen, _ = model._compared(history, candidate, batch)
    vectors = torch.stack([
        (w.unsqueeze(1) * rows).sum(0) for w, rows in zip(weights.split(LENGTHS), seen.split(LENGTHS), strict=True)
    ])  # fmt: skip
    torch.testing.assert_close(model.represent(history, candidate, batch).vector, vectors)
    if options:
        sums = torch.stack([part.sum() for part in weights.split(LENGTHS)])
        torch.testing.assert_close(sums, torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64))


def test_embed_has_the_behaviours_first():
    model, batch = build("din", {}), random_batch(LENGTHS)
    history, candidate = model.embed(batch)
    torch.testing.assert_close(history, model.embeddings(batch.history, SCHEMA.behavior))
    torch.testing.assert_close(candidate, model.embeddings(batch.candidate, SCHEMA.item))


def test_without_a_position_to_learn_from_the_auxiliary_loss_is_zero_and_its_gradient_too():
    loss, batch = AuxiliaryLoss(2, AuxiliaryConfig(aux_weight=1.0)), random_batch([1, 0, 1])
    states = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    found = loss(states, torch.ones(2, 2), torch.ones(2, 2), batch)
    found.backward()
    assert found.item() == 0
    assert states.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_auxiliary_loss_of_a_single_position_is_divided_by_one():
    """With states and items at 0 both probabilities are 1/2: 2 log 2."""
    loss, zeros = AuxiliaryLoss(2, AuxiliaryConfig(aux_weight=0.5)), torch.zeros(2, 2, dtype=torch.float64)
    assert loss(zeros, zeros, zeros, random_batch([2])).item() == pytest.approx(0.5 * 2 * np.log(2))


def test_the_row_of_a_crossed_pair():
    batch = random_batch(LENGTHS)
    segments = batch.pairs.segments.tolist()
    pairs = [
        seen * 13 + int(batch.candidate["item_id"][b])
        for seen, b in zip(batch.history["item_id"].tolist(), segments, strict=True)
    ]
    assert build("wide_deep", {}).wide._pairs(batch, "item_id", 169).tolist() == pairs
    odd = 0x9E3779B97F4A7C1
    hashed = [
        ((pair * odd + (1 << 63)) % (1 << 64) - (1 << 63) >> 20) % 7 for pair in pairs
    ]  # in 64 bits, with a sign
    assert build("wide_deep", {"cross_rows": 7}).wide._pairs(batch, "item_id", 7).tolist() == hashed


def test_crosses_of_two_fields_add_up():
    model, batch = build("wide_deep", {"pooling": "mean"}), random_batch([2])
    with torch.no_grad():
        for table in model.wide.weights.values():
            table.weight.copy_(torch.arange(len(table.weight)).unsqueeze(1))
    rows = [model.wide._pairs(batch, name, size * size) for name, size in model.wide.sizes.items()]
    assert len(rows) == 2
    assert model.wide(batch).tolist() == [sum(row.double().mean().item() for row in rows)]


@pytest.mark.parametrize("score", ["inner", "net"])
def test_an_item_that_is_the_clicked_one_in_every_field_is_no_negative(score):
    """One history of 4 behaviours, two negatives a position; states at 0, so that every score of a position is the same.

    Position 0 is followed by the item (2, 0) and borrows (2, 0), the clicked one itself, and (3, 1): one negative, log 2.
    Position 1 is followed by (3, 0) and borrows (3, 1), which differs in a field, and (4, 0): two negatives, log 3.
    Position 2 is followed by (5, 1) and borrows (4, 0) and, from the batch's beginning, (5, 1): one negative, log 2.
    """
    config = AuxiliaryConfig(aux_weight=3.0, aux_contrast="infonce", aux_negatives=2, aux_score=score)
    loss = AuxiliaryLoss(2, config).double()
    if score == "net":
        torch.nn.init.zeros_(loss.net.layers[0].weight)
    batch = random_batch([4])
    batch.history = {"item_id": torch.tensor([1, 2, 3, 5]), "category": torch.tensor([0, 0, 0, 1])}
    batch.negatives = {"item_id": torch.tensor([5, 2, 3, 4]), "category": torch.tensor([1, 0, 1, 0])}
    zeros = torch.zeros(4, 2, dtype=torch.float64)
    found = loss(zeros, zeros, torch.ones(4, 2, dtype=torch.float64), batch)
    assert found.item() == pytest.approx(3.0 * (2 * np.log(2) + np.log(3)) / 3)


@pytest.mark.parametrize("key", ["dien", "dmin"])
@pytest.mark.parametrize(("weight", "draws"), [(0.0, False), (1e-6, True), (1.0, True)])
def test_negatives_are_drawn_if_the_auxiliary_loss_has_a_weight(key, weight, draws):
    model, batch = build(key, {"aux_weight": weight}), random_batch(LENGTHS)
    assert model.uses_negatives == draws
    assert (getattr(model, "auxiliary", None) is not None) == draws
    assert (model(batch).auxiliary_loss is not None) == draws
