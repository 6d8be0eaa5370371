import numpy as np
import pytest
import torch
from torch import nn

from deep_interest.logs.schema import Field
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table
from deep_interest.training.optimizers import Optimizer
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer


class Tiny(nn.Module):
    """One table and one weight: the loss is Σ w · row over the batch's ids."""

    def __init__(self):
        super().__init__()
        self.table = Table(Field(name="item_id", size=5), 2, groups=("item", "behavior"), std=0.0).double()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
        with torch.no_grad():
            self.table.weight.copy_(torch.arange(10.0, dtype=torch.float64).reshape(5, 2))

    def loss(self, ids):
        return (self.table(torch.tensor(ids)) @ self.weight).sum()


def batch_of(candidate, history=(), negatives=()):
    """One sample a candidate; the behaviours are all the first sample's."""
    size = len(candidate)
    offsets = torch.tensor([0] + [len(history)] * size)
    codes = [{"item_id": torch.tensor(ids, dtype=torch.int32)} for ids in (candidate, history, negatives)]
    return Batch(codes[0], codes[1], offsets, {}, {}, torch.zeros(size), codes[2] if negatives else None)


def step(options, ids, model=None, *, history=(), negatives=(), occurrences=None):
    model = model or Tiny()
    optimizer = Optimizer(model, TrainingOptions(**options), occurrences=occurrences)
    model.loss([*ids, *history, *negatives]).backward()
    optimizer.step(batch_of(ids, history, negatives))
    return model, optimizer


def moved(options, ids, **more):
    """What one step takes from each row beyond the step without the penalty, per unit of the learning rate."""
    penalties = ("l2", "mba", "difacto", "decoupled")
    plain = {name: value for name, value in options.items() if name not in penalties}
    with_penalty, without = (step(o, ids, **more)[0].table.weight.detach().numpy() for o in (options, plain))
    return (without - with_penalty) / options["learning_rate"]


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


SGD = {"optimizer": "sgd", "learning_rate": 0.1}
ROWS = np.arange(10.0).reshape(5, 2)
OCCURRENCES = {"item_id:item+behavior": torch.tensor([1, 4, 2, 8, 5])}


def test_one_step_of_the_mini_batch_aware_penalty_by_hand():
    """DIN eq. 7 with λ = 3: row 1 (n = 4) and row 3 (n = 8) are touched, however often; the others are not."""
    model, _ = step({**SGD, "mba": 3.0}, [1, 3], history=[1, 1], occurrences=OCCURRENCES)
    expected = ROWS.copy()
    expected[1] -= 0.1 * (3 * np.array([1, -2]) + 3.0 / 4 * np.array([2, 3]))
    expected[3] -= 0.1 * (np.array([1, -2]) + 3.0 / 8 * np.array([6, 7]))
    np.testing.assert_allclose(model.table.weight.detach().numpy(), expected, atol=1e-12)


def test_difacto_penalizes_a_row_once_for_each_occurrence():
    found = moved({**SGD, "difacto": 0.5}, [1, 3], history=[1, 1])
    np.testing.assert_allclose(found[[1, 3]], 0.5 * np.array([[3], [1]]) * ROWS[[1, 3]], atol=1e-9)
    assert not found[[0, 2, 4]].any()


def test_behaviours_of_a_shared_history_occur_in_each_of_its_samples():
    batch = batch_of([1, 2, 1], history=[3, 4])
    batch.offsets, batch.owner = torch.tensor([0, 2, 2]), torch.tensor([0, 0, 1])
    table = Tiny().table
    found = Regularizer(table, TrainingOptions(difacto=0.5), None)(torch.tensor([1, 2, 3, 4]), batch)
    assert found.tolist() == [1.0, 0.5, 1.0, 1.0]


def test_items_drawn_for_an_auxiliary_loss_are_not_penalized():
    for penalty in ({"l2": 0.5}, {"mba": 0.5}, {"difacto": 0.5}):
        found = moved({**SGD, **penalty}, [1], negatives=[4, 4], occurrences=OCCURRENCES)
        assert found[1].any()
        assert not found[4].any()


def test_penalties_add_up():
    options = {"l2": 0.2, "mba": 3.0, "difacto": 0.5}
    together = moved({**SGD, **options}, [1, 3], history=[1], occurrences=OCCURRENCES)
    alone = [
        moved({**SGD, name: value}, [1, 3], history=[1], occurrences=OCCURRENCES)
        for name, value in options.items()
    ]
    np.testing.assert_allclose(together, sum(alone), atol=1e-9)


@pytest.mark.parametrize("penalty", [{"l2": 0.5}, {"mba": 3.0}, {"difacto": 0.5}])
def test_for_sgd_a_decoupled_penalty_is_the_coupled_one(penalty):
    results = [
        step({**SGD, **penalty, "decoupled": decoupled}, [1, 3], occurrences=OCCURRENCES)[
            0
        ].table.weight.detach()
        for decoupled in (False, True)
    ]
    torch.testing.assert_close(*results)


def test_for_adam_a_decoupled_penalty_passes_the_moments_by():
    adam = {"optimizer": "adam", "learning_rate": 0.1, "mba": 3.0}
    found = moved({**adam, "decoupled": True}, [1, 3], occurrences=OCCURRENCES)
    np.testing.assert_allclose(found[[1, 3]], 3 / np.array([[4], [8]]) * ROWS[[1, 3]], atol=1e-6)
    coupled = moved(
        adam, [1, 3], occurrences=OCCURRENCES
    )  # one step of Adam is the rate, whatever the gradient's size
    assert np.abs(coupled).max() <= 2 + 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["plain", "compiled"])
@pytest.mark.parametrize(
    ("options", "of_torch", "weight_decay"),
    [
        ({"optimizer": "adam"}, torch.optim.Adam, 0.0),
        ({"optimizer": "adam", "l2": 0.02}, torch.optim.Adam, 0.02),
        ({"optimizer": "adam", "l2": 0.5, "decoupled": True}, torch.optim.AdamW, 0.5),
        ({"optimizer": "sgd", "l2": 0.5}, torch.optim.SGD, 0.5),
    ],
)
def test_an_update_of_all_rows_is_that_of_torch_with_dense_gradients(options, of_torch, weight_decay, dtype):
    """Rows 0 and 4 occur in no batch, row 2 in the first one only."""
    model = Tiny().to(dtype)
    table, weight = (nn.Parameter(value.detach().clone()) for value in (model.table.weight, model.weight))
    reference = of_torch(
        [{"params": [table], "weight_decay": weight_decay}, {"params": [weight], "weight_decay": 0.0}], lr=0.1
    )
    optimizer = Optimizer(model, TrainingOptions(learning_rate=0.1, updated_rows="all", **options))
    for ids in [[1, 2, 1], [3], [1, 3], [1]]:
        model.loss(ids).backward()
        optimizer.step(batch_of(ids))
        reference.zero_grad()
        (table[ids] @ weight).sum().backward()
        reference.step()
    torch.testing.assert_close(model.table.weight.detach(), table.detach())
    changed = (table.detach() != torch.from_numpy(ROWS)).any(1)
    assert changed.tolist() == [bool(weight_decay), True, True, True, bool(weight_decay)]


def test_mba_on_all_rows_acts_on_the_rows_of_the_batch_only():
    """α_mj of DIN eq. 6 is 0 for an id that does not occur; L2 has no such factor."""
    found = moved({**SGD, "mba": 3.0, "updated_rows": "all"}, [1, 3], occurrences=OCCURRENCES)
    np.testing.assert_allclose(found[[1, 3]], 3 / np.array([[4], [8]]) * ROWS[[1, 3]], atol=1e-9)
    assert not found[[0, 2, 4]].any()
    l2 = moved({**SGD, "l2": 0.5, "updated_rows": "all"}, [1, 3])
    np.testing.assert_allclose(l2, 0.5 * ROWS, atol=1e-9)


@pytest.mark.parametrize("penalty", ["l2", "mba", "difacto"])
def test_a_penalty_of_zero_is_none(penalty):
    model, optimizer = step({"optimizer": "adam", penalty: 0.0}, [1, 3], occurrences=OCCURRENCES)
    assert not optimizer.regularizers[0].on
    torch.testing.assert_close(
        model.table.weight, step({"optimizer": "adam"}, [1, 3])[0].table.weight, rtol=0, atol=0
    )


def test_crossed_features_have_l2_only():
    table = Table(Field(name="item_id", size=5), 1, groups=(), std=1.0)
    options = TrainingOptions(l2=0.5, mba=3.0, difacto=2.0)
    found = Regularizer(table, options, None)(torch.tensor([0, 4]), batch_of([1]))
    assert found.tolist() == [0.5, 0.5]


def test_adam_moves_touched_rows_and_their_moments_only():
    model, optimizer = step({"optimizer": "adam", "learning_rate": 0.1}, [1])
    model.loss([2]).backward()
    optimizer.step(batch_of([2]))
    changed = (model.table.weight.detach().numpy() != np.arange(10.0).reshape(5, 2)).any(axis=1)
    assert list(changed) == [False, True, True, False, False]
    np.testing.assert_allclose(
        model.table.weight[1].detach().numpy(), [2 - 0.1, 3 + 0.1], atol=1e-6
    )  # Adam's first step is the rate


def test_tables_and_network_move_as_with_torchs_own_adam_over_many_steps():
    torch.manual_seed(0)
    ours, theirs = Tiny(), Tiny()
    optimizer = Optimizer(ours, TrainingOptions(optimizer="adam", learning_rate=0.05))
    rows = torch.optim.SparseAdam([theirs.table.weight], lr=0.05)
    network = torch.optim.Adam([theirs.weight], lr=0.05)
    for _ in range(20):
        ids, goal = torch.randint(5, (3,)).tolist(), torch.randn((), dtype=torch.float64)
        for model in (ours, theirs):
            (model.loss(ids) - goal).square().backward()
        optimizer.step(batch_of(ids))
        for part in (rows, network):
            part.step()
            part.zero_grad()
    torch.testing.assert_close(ours.table.weight, theirs.table.weight, atol=1e-10, rtol=0)
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-10, rtol=0)


class Two(nn.Module):
    """Two tables and a weight; a batch may leave a table out."""

    def __init__(self, dtype):
        super().__init__()
        self.tables = nn.ModuleList(
            Table(Field(name=name, size=4), 2, groups=("item",), std=0.0).to(dtype)
            for name in ("item_id", "shop")
        )
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0], dtype=dtype))
        for table in self.tables:
            nn.init.ones_(table.weight)

    def loss(self, *ids):
        rows = [table(torch.tensor(of)) for table, of in zip(self.tables, ids, strict=True) if of]
        return self.weight.square().sum() + sum((part @ self.weight).sum() for part in rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_table_counts_its_own_steps_of_adam(dtype):
    """The bias correction of a table's first step is that of step 1, however often the network has moved: it moves by the rate."""
    model = Two(dtype)
    optimizer = Optimizer(model, TrainingOptions(optimizer="adam", learning_rate=0.1))
    for ids in ([[1], []], [[1], []], [[1], []], [[], [2]]):
        model.loss(*ids).backward()
        optimizer.step(batch_of([0]))
    item_ids, shop = (table.weight.detach() for table in model.tables)
    moved = (shop[2] - 1).tolist()
    assert moved == pytest.approx([-0.1, 0.1], abs=1e-6)
    assert (shop[[0, 1, 3]] == 1).all()
    assert (item_ids[[0, 2, 3]] == 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tables_that_are_touched_now_and_then_move_as_with_torchs_own_adam(dtype):
    ours, theirs = Two(dtype), Two(dtype)
    optimizer = Optimizer(ours, TrainingOptions(optimizer="adam", learning_rate=0.05))
    rows = [torch.optim.SparseAdam([table.weight], lr=0.05) for table in theirs.tables]
    network = torch.optim.Adam([theirs.weight], lr=0.05)
    for ids in ([[1], []], [[], []], [[1, 2], [3]], [[], [3, 0]], [[2], []], [[1], [3]]):
        for model in (ours, theirs):
            model.loss(*ids).backward()
        optimizer.step(batch_of([0]))
        for part in (*rows, network):
            part.step()
            part.zero_grad()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


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
    assert again.state_dict()["steps"] == [1, 1]
    torch.testing.assert_close(again.state_dict()["moments"], optimizer.state_dict()["moments"])
