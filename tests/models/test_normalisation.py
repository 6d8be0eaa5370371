"""Layers against PyTorch's own: batch and layer normalisation, pooling; and which layers of a network become one operation."""

import numpy as np
import pytest
import torch
from support.batches import SCHEMA
from torch import nn

from deep_interest.models.embeddings import Embeddings, mean_by_length, pool
from deep_interest.models.layers import (
    MLP,
    BatchNorm,
    Dice,
    LayerNorm,
    PReLU,
    apply_stages,
    fuse_layers,
    make_activation,
)
from deep_interest.models.shared_fields import SameFields
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.mlp import Layers


def randomized(*modules):
    """The modules with the same random weights, in float64."""
    torch.manual_seed(0)
    first, *others = (module.double() for module in modules)
    for parameter in first.parameters():
        parameter.data = torch.randn_like(parameter)
    for other in others:
        other.load_state_dict(first.state_dict())
    return first, *others


@pytest.mark.parametrize("options", [{}, {"eps": 0.5}, {"momentum": 0.7}])
def test_batch_normalisation_is_pytorchs(options):
    ours, theirs = randomized(BatchNorm(3, **options), nn.BatchNorm1d(3, **options))
    for rows in (4, 2, 9):
        x = torch.randn(rows, 3, dtype=torch.float64) * 2 + 1
        torch.testing.assert_close(ours(x), theirs(x))
    ours_state, theirs_state = ours.state_dict(), theirs.state_dict()
    assert ours_state["num_batches_tracked"].item() == 3
    for name, tensor in theirs_state.items():
        torch.testing.assert_close(ours_state[name], tensor)
    one = torch.randn(1, 3, dtype=torch.float64)
    averages = theirs.eval()(one)
    torch.testing.assert_close(
        ours(one), averages
    )  # one row has no variance: the moving averages, which it leaves alone
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    torch.testing.assert_close(ours.eval()(x), theirs(x))


def test_the_gradients_of_batch_normalisation_are_pytorchs():
    ours, theirs = randomized(BatchNorm(3), nn.BatchNorm1d(3))
    x = torch.randn(5, 3, dtype=torch.float64)
    gradients = []
    for layer in (ours, theirs):
        own = x.clone().requires_grad_()
        layer(own).pow(3).sum().backward()
        gradients.append([own.grad, layer.weight.grad, layer.bias.grad])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("options", [{}, {"eps": 0.5}])
def test_layer_normalisation_is_pytorchs(options):
    ours, theirs = randomized(LayerNorm(6, **options), nn.LayerNorm(6, **options))
    x = torch.randn(5, 6, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_dice_adds_its_epsilon_to_the_variance_and_begins_as_a_gate():
    """(1, 3) has mean 2 and variance 1: with ε = 3 the normalised inputs are -1/2 and 1/2, and α is 0 at first."""
    dice = Dice(1, eps=3.0).double()
    assert dice.alpha.tolist() == [0.0]
    found = dice(torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    expected = [1 / (1 + np.exp(0.5)), 3 / (1 + np.exp(-0.5))]
    np.testing.assert_allclose(found.detach().numpy()[:, 0], expected)
    assert dice.standardize.running_mean.item() == pytest.approx(0.2)  # momentum 0.1
    assert Dice(2).standardize.eps == 1e-8


def test_a_single_row_leaves_the_averages_of_dice_alone_and_two_rows_move_them():
    dice = Dice(1).double()
    dice(torch.tensor([[4.0]], dtype=torch.float64))
    assert dice.standardize.running_mean.item() == 0
    dice(torch.tensor([[4.0], [6.0]], dtype=torch.float64))
    assert dice.standardize.running_mean.item() == pytest.approx(0.5)
    out = dice.eval()(torch.tensor([[0.5]], dtype=torch.float64))  # at the moving mean: p = 1/2
    assert out.item() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("name", "kind"), [("dice", Dice), ("prelu", PReLU), ("relu", nn.ReLU), ("sigmoid", nn.Sigmoid)]
)
def test_an_activation_by_its_name_with_a_slope_for_each_channel(name, kind):
    made = make_activation(name, 7)
    assert type(made) is kind
    assert [tuple(parameter.shape) for parameter in made.parameters()] == (
        [(7,)] if name in ("dice", "prelu") else []
    )


def test_pooling_sums_or_averages_each_run_and_an_empty_one_is_zero():
    values, runs = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]]), Jagged(torch.tensor([0, 2, 2, 3]))
    assert pool(values, runs, "sum").tolist() == [[4.0, 6.0], [0.0, 0.0], [5.0, 9.0]]
    assert pool(values, runs, "mean").tolist() == [[2.0, 3.0], [0.0, 0.0], [5.0, 9.0]]
    sums, lengths = torch.tensor([[6.0, 3.0], [5.0, 7.0]]), torch.tensor([3, 0])
    assert mean_by_length(sums, lengths).tolist() == [[2.0, 1.0], [5.0, 7.0]]


@pytest.mark.parametrize(
    ("activation", "batch_norm", "kinds"),
    [
        ("prelu", False, ["prelu", "prelu", "linear"]), ("relu", False, ["relu", "relu", "linear"]),
        ("sigmoid", False, ["sigmoid", "sigmoid", "linear"]),
        ("dice", False, [["linear"], "Dice", ["linear"], "Dice", ["linear"]]),
        ("relu", True, [["linear"], "BatchNorm", "ReLU", ["linear"], "BatchNorm", "ReLU", ["linear"]]),
    ],
)  # fmt: skip
def test_linear_layers_with_known_activations_are_one_operation(activation, batch_norm, kinds):
    mlp = MLP(3, (4, 2), activation=activation, batch_norm=batch_norm).double()
    parts = fuse_layers(mlp.layers)
    found = [
        [layer.activation for layer in part] if isinstance(part, Layers) else type(part).__name__
        for part in parts
    ]
    assert found == ([kinds] if isinstance(kinds[0], str) else kinds)
    x = torch.randn(6, 3, dtype=torch.float64)
    for parameter in mlp.parameters():
        parameter.data = torch.randn_like(parameter)
    expected = mlp.layers(x)
    torch.testing.assert_close(apply_stages(parts, x), expected)
    torch.testing.assert_close(mlp(x), expected)


def test_an_mlp_without_hidden_layers_is_linear_and_has_one_output_by_default():
    mlp = MLP(3, ())
    assert [tuple(parameter.shape) for parameter in mlp.parameters()] == [(1, 3), (1,)]
    assert isinstance(MLP(3, (2,)).layers[1], PReLU)


def test_the_candidates_vector_in_the_order_of_a_behaviours_fields():
    candidate = torch.arange(12.0).reshape(2, 6)
    items = (*SCHEMA.item, SCHEMA.context[0])
    same = SameFields(SCHEMA.model_copy(update={"item": items, "behavior": items[:0:-1]}), 2, 4, model="DIN")
    assert same(candidate).tolist() == [[4.0, 5.0, 2.0, 3.0], [10.0, 11.0, 8.0, 9.0]]
    whole = SameFields(SCHEMA.model_copy(update={"item": items, "behavior": items}), 2, 6, model="DIN")
    assert whole(candidate) is candidate
    first = SameFields(SCHEMA.model_copy(update={"item": items, "behavior": items[:2]}), 2, 4, model="DIN")
    assert first(candidate).tolist() == candidate[:, :4].tolist()
    more = SameFields(SCHEMA.model_copy(update={"item": items, "behavior": items[:1]}), 2, 5, model="DIN")
    assert more(candidate).tolist() == [[0.0, 1.0, 0.0, 0.0, 0.0], [6.0, 7.0, 0.0, 0.0, 0.0]]


def test_embeddings_have_the_fields_in_the_order_asked_and_groups_together_are_those_alone():
    torch.manual_seed(0)
    embeddings = Embeddings(SCHEMA, dim=3)
    assert embeddings.tables["item_id"].weight.std() < 0.02  # 0.01 by default
    item_ids, category = (embeddings.tables[name].weight for name in ("item_id", "category"))
    codes = {"item_id": torch.tensor([1, 12]), "category": torch.tensor([4, 0])}
    found = embeddings(codes, SCHEMA.item[::-1])
    assert torch.equal(found, torch.cat([category[[4, 0]], item_ids[[1, 12]]], dim=1))
    genders = {"gender": torch.tensor([2])}
    together = embeddings.lookup_groups(
        (codes, SCHEMA.item), (genders, SCHEMA.profile), (codes, SCHEMA.item[:1])
    )
    assert torch.equal(together[0], embeddings(codes, SCHEMA.item))
    assert torch.equal(together[1], embeddings.tables["gender"].weight[2:])
    assert torch.equal(together[2], item_ids[[1, 12]])
    assert torch.equal(embeddings.tables["item_id"](torch.tensor([7])), item_ids[7:8])
