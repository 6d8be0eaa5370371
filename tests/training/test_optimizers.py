import numpy as np
import pytest
import torch
from torch import nn

from deep_interest.training.optimizers import Optimizer
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.row_adam import RowAdam


class Tiny(nn.Module):
    """One table and one weight: the loss is Σ w · row over the batch's ids."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 2, sparse=True).double()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
        with torch.no_grad():
            self.table.weight.copy_(torch.arange(10.0, dtype=torch.float64).reshape(5, 2))

    def loss(self, ids):
        return (self.table(torch.tensor(ids)) @ self.weight).sum()


def step(options, ids, model=None):
    model = model or Tiny()
    optimizer = Optimizer(model, TrainingOptions(**options))
    model.loss(ids).backward()
    optimizer.step()
    return model, optimizer


def test_sgd_moves_touched_rows_by_the_summed_gradient():
    model, _ = step({"optimizer": "sgd", "learning_rate": 0.1}, [1, 3, 1])
    expected = np.arange(10.0).reshape(5, 2)
    expected[1] -= 0.1 * 2 * np.array([1, -2])
    expected[3] -= 0.1 * np.array([1, -2])
    np.testing.assert_allclose(model.table.weight.detach().numpy(), expected)
    np.testing.assert_allclose(
        model.weight.detach().numpy(), np.array([1, -2]) - 0.1 * np.array([10, 13]), atol=1e-12
    )


def test_l2_decays_touched_rows_once_and_leaves_the_others():
    model, _ = step({"optimizer": "sgd", "learning_rate": 0.1, "l2": 0.5}, [1, 3, 1])
    expected = np.arange(10.0).reshape(5, 2)
    expected[1] -= 0.1 * (2 * np.array([1, -2]) + 0.5 * np.array([2, 3]))
    expected[3] -= 0.1 * (np.array([1, -2]) + 0.5 * np.array([6, 7]))
    np.testing.assert_allclose(model.table.weight.detach().numpy(), expected)


def test_adam_moves_touched_rows_and_their_moments_only():
    model, optimizer = step({"optimizer": "adam", "learning_rate": 0.1}, [1])
    model.loss([2]).backward()
    optimizer.step()
    moved = (model.table.weight.detach().numpy() != np.arange(10.0).reshape(5, 2)).any(axis=1)
    assert list(moved) == [False, True, True, False, False]
    np.testing.assert_allclose(
        model.table.weight[1].detach().numpy(), [2 - 0.1, 3 + 0.1], atol=1e-6
    )  # Adam's first step is the rate


def test_row_adam_agrees_with_torchs_sparse_adam_over_many_steps():
    torch.manual_seed(0)
    ours, theirs = (nn.Embedding(9, 3, sparse=True).double() for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    optimizers = [RowAdam(ours.parameters(), lr=0.05), torch.optim.SparseAdam(theirs.parameters(), lr=0.05)]
    for _ in range(20):
        ids, goal = torch.randint(9, (5,)), torch.randn(5, 3, dtype=torch.float64)
        for table, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            (table(ids) - goal).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-12, rtol=0)


def test_clipping_bounds_the_norm_over_all_gradients():
    free, _ = step({"optimizer": "sgd", "learning_rate": 1.0}, [1, 3])
    clipped, _ = step({"optimizer": "sgd", "learning_rate": 1.0, "gradient_norm": 0.5}, [1, 3])
    start = Tiny()
    moves = []
    for model in (free, clipped):
        pairs = zip(model.parameters(), start.parameters(), strict=True)
        moves.append(torch.cat([(after - before).flatten() for after, before in pairs]))
    assert moves[1].norm().item() == pytest.approx(0.5)
    torch.testing.assert_close(moves[1] / moves[1].norm(), moves[0] / moves[0].norm())


def test_the_state_comes_back():
    model, optimizer = step({"optimizer": "adam"}, [1, 2])
    again = Optimizer(model, TrainingOptions())
    again.load_state_dict(optimizer.state_dict())
    torch.testing.assert_close(again.state_dict()[1]["state"], optimizer.state_dict()[1]["state"])
