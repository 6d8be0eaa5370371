"""The auxiliary loss (DIEN eq. 7): its scale, histories that samples share, and that its gradient reaches the model."""

import math
from dataclasses import replace

import pytest
import torch
from support.batches import SCHEMA, random_batch, sharing_batches

from deep_interest.models.auxiliary import AuxiliaryConfig, AuxiliaryLoss
from deep_interest.models.registry import build_model, model_config

SMALL = {"embedding_dim": 4, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
LENGTHS, OWNER = [9, 2, 5], [0, 0, 0, 0, 1, 2]
ROWS = [
    ("dien", {"aux_weight": 1.0}),
    ("dien", {"aux_weight": 1.0, "aux_score": "net"}),
    ("dien_infonce", {"aux_weight": 1.0, "aux_contrast": "infonce"}),
    ("dmin", {}),
]


def build(key, options):
    torch.manual_seed(0)
    model = build_model(key, model_config(key, options, common=SMALL), SCHEMA).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def loss_and_gradients(model, batch):
    """The auxiliary loss and its gradients by parameter, those of the target loss left out."""
    model.zero_grad()
    loss = model(batch).auxiliary_loss
    loss.backward()
    gradients = {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), gradients


@pytest.mark.parametrize(
    ("owner", "scale", "count"),
    [
        (None, "positions", 2 + 1),
        (None, "sequences", 4),
        ([0, 0, 0, 1, 2, 3], "positions", 3 * 2 + 1),
        ([0, 0, 0, 1, 2, 3], "sequences", 6),
    ],
)
def test_the_loss_is_a_mean_over_positions_or_over_sequences(owner, scale, count):
    """Histories of 3, 2, 1 and 0 behaviours; in the first σ = 3/4 for a click and 1/4 else, in the second 1/2 for both."""
    sequence = random_batch([3, 2, 1, 0])
    batch = sequence
    if owner is not None:
        batch = replace(random_batch([0] * len(owner)), offsets=sequence.offsets, history=sequence.history,
                        negatives=sequence.negatives, owner=torch.tensor(owner))  # fmt: skip
    states = torch.ones(6, 1, dtype=torch.float64)
    clicked = torch.tensor([9.0, math.log(3), math.log(3), 9.0, 0.0, 9.0], dtype=torch.float64).unsqueeze(1)
    loss = AuxiliaryLoss(1, AuxiliaryConfig(aux_weight=0.5, aux_scale=scale))
    first, second = 2 * math.log(4 / 3), 2 * math.log(2)
    times = 3 if owner else 1
    expected = 0.5 * (times * 2 * first + second) / count
    assert loss(states, clicked, -clicked, batch).item() == pytest.approx(expected)


@pytest.mark.parametrize("scale", ["positions", "sequences"])
@pytest.mark.parametrize(("key", "options"), ROWS)
def test_a_shared_history_counts_once_for_each_of_its_samples(key, options, scale):
    model = build(key, options | {"aux_scale": scale})
    shared, own = sharing_batches(LENGTHS, OWNER)
    if (
        key == "dien_infonce"
    ):  # with the same item sampled everywhere, it does not matter whose negatives are borrowed
        for batch in (shared, own):
            batch.negatives = {name: torch.full_like(codes, 3) for name, codes in batch.negatives.items()}
    loss, gradients = loss_and_gradients(model, shared)
    expected, expected_gradients = loss_and_gradients(model, own)
    torch.testing.assert_close(loss, expected)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected_gradients[name], msg=name)


@pytest.mark.slow
def test_infonce_of_shared_histories_is_the_same_in_expectation():
    """Two histories, the first shared by three samples; the negatives of a copy are drawn independently of the others'."""
    lengths, owner, items = [4, 12], [0, 0, 0, 1], 50
    shared, own = sharing_batches(lengths, owner)
    torch.manual_seed(0)
    table = torch.randn(items, 2, dtype=torch.float64)
    loss = AuxiliaryLoss(2, AuxiliaryConfig(aux_weight=1.0, aux_contrast="infonce", aux_negatives=2))

    def losses(batch, states, clicked):
        codes = torch.randint(items, (400, len(clicked)))
        history = {"item_id": clicked}
        return torch.stack([
            loss(states, table[clicked], table[drawn],
                 replace(batch, history=history, negatives={"item_id": drawn})) for drawn in codes
        ])  # fmt: skip

    clicked = torch.randint(items, (16,))
    states = torch.cat([-table[clicked[1:4]], torch.zeros(1, 2), table[clicked[5:]], torch.zeros(1, 2)]) * 1.0
    copies = torch.cat([torch.arange(4)] * 3 + [torch.arange(4, 16)])
    one, other = losses(shared, states, clicked), losses(own, states[copies], clicked[copies])
    error = (one.var() / len(one) + other.var() / len(other)).sqrt()
    assert abs(one.mean() - other.mean()) < 3 * error
    once = {
        name: {field: codes[:2] for field, codes in getattr(shared, name).items()}
        for name in ("candidate", "profile", "context")
    }
    unweighted = losses(replace(shared, owner=None, labels=shared.labels[:2], **once), states, clicked)
    assert abs(unweighted.mean() - other.mean()) > 10 * error  # the test detects the difference


@pytest.mark.parametrize(("key", "options"), ROWS)
def test_the_auxiliary_loss_has_a_gradient_in_what_makes_the_states(key, options):
    _, gradients = loss_and_gradients(build(key, options), random_batch(LENGTHS))
    maker = "extractor." if key.startswith("dien") else "refiner."
    made = {name: gradient for name, gradient in gradients.items() if name.startswith(maker)}
    assert len(made) >= 2
    for gradient in made.values():
        assert gradient.abs().max() > 1e-3
    assert gradients["embeddings.tables.item_id.weight"].abs().max() > 1e-3


@pytest.mark.parametrize("scale", ["mean", "batch"])
def test_an_unknown_scale_is_refused(scale):
    with pytest.raises(ValueError, match="aux_scale"):
        model_config("dien", {"aux_scale": scale})
