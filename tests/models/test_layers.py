import numpy as np
import pytest
import torch
from support.batches import PLAIN_SCHEMA, random_batch

from deep_interest.models.embeddings import Embeddings
from deep_interest.models.layers import MLP, Dice, make_activation


def dice_by_equation(s, alpha, mean, variance, eps=1e-8):
    """DIN eq. 9."""
    p = 1 / (1 + np.exp(-(s - mean) / np.sqrt(variance + eps)))
    return p * s + (1 - p) * alpha * s


def make_dice(channels: int) -> Dice:
    dice = Dice(channels).double()
    with torch.no_grad():
        dice.alpha.copy_(torch.linspace(-0.5, 0.5, channels, dtype=torch.float64))
    return dice


def test_dice_in_training_uses_the_batchs_own_statistics():
    s = np.random.default_rng(0).normal(2, 3, (50, 4))
    ours = make_dice(4)(torch.tensor(s)).detach().numpy()
    np.testing.assert_allclose(
        ours, dice_by_equation(s, np.linspace(-0.5, 0.5, 4), s.mean(0), s.var(0)), atol=1e-12
    )


def test_dice_in_evaluation_uses_moving_averages():
    rng = np.random.default_rng(0)
    dice, batches = make_dice(3), [rng.normal(1, 2, (20, 3)) for _ in range(3)]
    mean, variance = np.zeros(3), np.ones(3)
    for batch in batches:
        dice(torch.tensor(batch))
        mean, variance = 0.9 * mean + 0.1 * batch.mean(0), 0.9 * variance + 0.1 * batch.var(0, ddof=1)
    s = rng.normal(size=(5, 3))
    ours = dice.eval()(torch.tensor(s)).detach().numpy()
    np.testing.assert_allclose(
        ours, dice_by_equation(s, np.linspace(-0.5, 0.5, 3), mean, variance), atol=1e-12
    )


def test_dice_becomes_prelu_as_mean_and_variance_vanish():
    dice, prelu = make_dice(4).eval(), make_activation("prelu", 4).double()
    with torch.no_grad():
        prelu.weight.copy_(dice.alpha)
        dice.standardize.running_var.zero_()
    s = torch.randn(30, 4, dtype=torch.float64)
    s[s.abs() < 0.01] = 0.5
    torch.testing.assert_close(dice(s), prelu(s), atol=1e-9, rtol=0)


@pytest.mark.parametrize("rows", [0, 1])
def test_dice_takes_empty_and_single_rows(rows):
    dice = make_dice(2)
    for mode in (True, False):
        s = torch.full((rows, 2), 3.0, dtype=torch.float64)
        out = dice.train(mode)(s)
        assert out.shape == (rows, 2)
        assert torch.isfinite(out).all()
    one = make_dice(1)(torch.tensor([[2.0]], dtype=torch.float64))
    np.testing.assert_allclose(one.item(), 0.5 * 2 + 0.5 * -0.5 * 2)  # p = 1/2: the row is its own mean


def test_embedding_gradients_touch_the_batchs_rows_only():
    embeddings, batch = Embeddings(PLAIN_SCHEMA, dim=3), random_batch([2, 3], schema=PLAIN_SCHEMA)
    embeddings(batch.history, PLAIN_SCHEMA.behavior).sum().backward()
    gradient = embeddings.tables["item_id"].weight.grad
    assert gradient.is_sparse
    assert set(gradient.coalesce().indices()[0].tolist()) == set(batch.history["item_id"].tolist())


def test_the_mlp_stacks_its_layers():
    mlp = MLP(3, (4, 2), activation="relu").double()
    x = np.random.default_rng(0).normal(size=(5, 3))
    hidden = x
    layers = [layer for layer in mlp.layers if isinstance(layer, torch.nn.Linear)]
    for k, layer in enumerate(layers):
        hidden = hidden @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        hidden = np.maximum(hidden, 0) if k < 2 else hidden
    np.testing.assert_allclose(mlp(torch.tensor(x)).detach().numpy(), hidden)


def test_dropout_sets_outputs_of_hidden_layers_to_zero_in_training_only(monkeypatch):
    mlp = MLP(3, (200, 150), activation="relu", dropout=0.4).double()
    x = torch.randn(60, 3, dtype=torch.float64)
    first, second, last = (layer for layer in mlp.layers if isinstance(layer, torch.nn.Linear))
    kept = [(torch.rand(60, width) >= 0.4).double() for width in (200, 150)]
    masks = iter(kept)
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, y: y * next(masks) / (1 - self.p))
    hidden = first(x).relu() * kept[0] / 0.6
    torch.testing.assert_close(mlp(x), last(second(hidden).relu() * kept[1] / 0.6))
    assert next(masks, None) is None
    torch.testing.assert_close(mlp.eval()(x), last(second(first(x).relu()).relu()))


def test_dropout_keeps_the_expected_share_and_the_gradient_flows_through_what_is_kept():
    torch.manual_seed(2)
    mlp = MLP(1, (1000,), activation="relu", dropout=0.3)
    with torch.no_grad():
        mlp.layers[0].weight.fill_(1.0)
        mlp.layers[0].bias.zero_()
        mlp.layers[-1].bias.zero_()
        mlp.layers[-1].weight.fill_(0.001)
    x = torch.ones(500, 1, requires_grad=True)
    out = mlp(x)
    np.testing.assert_allclose(out.mean().item(), 1.0, atol=0.01)  # unbiased
    assert 0.01 < out.std().item() < 0.03  # sqrt(0.3 / 0.7 / 1000) = 0.0207
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())  # both are Σ kept / 700 for an input of 1
