"""Flat parameters, Adam, SGD and clipping, by hand; what a state holds."""

import numpy as np
import pytest
import torch
from torch import nn

from deep_interest.ops.gradients import CoalescedGrad
from deep_interest.training.update_rules import SGD, Adam, Flat, clip


def parameters():
    return [nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]])), nn.Parameter(torch.tensor([5.0]))]


def touched(rows, gradient):
    return CoalescedGrad(torch.tensor(rows), torch.tensor(gradient), None)


def test_flat_parameters_are_views_of_one_vector_and_so_are_their_gradients():
    first, second = parameters()
    flat = Flat([first, second])
    assert flat.values.tolist() == [1, 2, 3, 4, 5]
    assert not flat.values.requires_grad
    assert flat.gradient.tolist() == [0] * 5
    (first.sum() * 2 + second.sum()).backward()
    assert flat.gradient.tolist() == [2, 2, 2, 2, 1]
    flat.values[:] = torch.arange(5.0)
    assert first.tolist() == [[0, 1], [2, 3]]
    assert second.tolist() == [4]
    assert first.grad.shape == (2, 2)
    assert len(Flat([]).values) == 0


def test_two_steps_of_adam_by_hand():
    """β = (0.5, 0.75), ε = 0.1, gradients 4 and -2: m = 2, 0; v = 4, 4; corrected m̂ = 4, 0; v̂ = 16, 64/7."""
    weight = nn.Parameter(torch.tensor([10.0], dtype=torch.float64))
    rule = Adam(Flat([weight]), [], betas=(0.5, 0.75), eps=0.1)
    weight.grad.fill_(4.0)
    rule.step(1.0, [])
    assert weight.item() == pytest.approx(10 - 4 / (4 + 0.1))
    before = weight.item()
    weight.grad.fill_(-2.0)
    rule.step(2.0, [])
    assert weight.item() == pytest.approx(before, abs=1e-12)  # m = 0.5 · 2 + 0.5 · (-2) = 0
    weight.grad.fill_(8.0)
    rule.step(2.0, [])
    m, v = 0.5 * 8, 0.75 * 4 + 0.25 * 64
    expected = before - 2 * (m / (1 - 0.5**3)) / (np.sqrt(v / (1 - 0.75**3)) + 0.1)
    assert weight.item() == pytest.approx(expected)


def test_the_defaults_of_adam_are_the_papers():
    rule = Adam(Flat(parameters()), [])
    assert (rule.betas, rule.eps) == ((0.9, 0.999), 1e-8)
    assert rule.steps == [0]


def test_a_table_moves_by_its_touched_rows_with_its_own_steps_and_the_rules_constants():
    table, other = (nn.Parameter(torch.ones(3, 2, dtype=torch.float64)) for _ in range(2))
    rule = Adam(
        Flat([nn.Parameter(torch.ones(1, dtype=torch.float64))]), [table, other], betas=(0.5, 0.75), eps=1.0
    )
    with torch.no_grad():
        rule.step(
            0.5, [CoalescedGrad(torch.tensor([1]), torch.full((1, 2), 3.0, dtype=torch.float64), None), None]
        )
    assert rule.steps == [1, 1, 0]
    rate = 0.5 * np.sqrt(1 - 0.75) / (1 - 0.5)  # as torch's SparseAdam, which adds ε before the correction
    assert table[1].tolist() == pytest.approx([1 - rate * 1.5 / (1.5 + 1)] * 2)
    assert table[[0, 2]].tolist() == other[[0, 1]].tolist() == [[1, 1], [1, 1]]
    assert rule.moments[1][0].tolist() == [[0, 0], [1.5, 1.5], [0, 0]]
    assert rule.moments[1][1].tolist() == [[0, 0], [2.25, 2.25], [0, 0]]


def test_the_state_of_adam_is_copied_into_another_and_its_steps_are_not_shared():
    weight = nn.Parameter(torch.tensor([10.0]))
    rule = Adam(Flat([weight]), [])
    weight.grad.fill_(4.0)
    rule.step(1.0, [])
    state = rule.state_dict()
    assert set(state) == {"steps", "moments"}
    state["steps"].append(7)
    assert rule.steps == [1]
    again = Adam(Flat([nn.Parameter(torch.tensor([10.0]))]), [])
    moments = again.moments[0]
    again.load_state_dict(rule.state_dict())
    assert again.steps == [1]
    assert again.moments[0] is moments  # in their own memory
    torch.testing.assert_close(again.moments, rule.moments)
    rule.moments[0][0].fill_(0)
    assert moments[0].item() != 0


def test_sgd_follows_the_gradient_and_has_no_state():
    (first, second), table = parameters(), nn.Parameter(torch.ones(3, 2))
    rule = SGD(Flat([first, second]), [table, nn.Parameter(torch.ones(1, 1))])
    second.grad.fill_(2.0)
    with torch.no_grad():
        rule.step(0.5, [touched([2], [[1.0, -4.0]]), None])
    assert second.tolist() == [4.0]
    assert first.tolist() == [[1, 2], [3, 4]]
    assert table.tolist() == [[1, 1], [1, 1], [0.5, 3.0]]
    assert rule.state_dict() == {}


@pytest.mark.parametrize(("limit", "scale"), [(2.5, 0.5), (5.0, 1.0), (100.0, 1.0)])
def test_clipping_scales_by_the_common_norm_and_never_up(limit, scale):
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]  # together of norm 5
    clip(gradients, limit)
    assert gradients[0].tolist() == pytest.approx([3 * scale, 0])
    assert gradients[1].item() == pytest.approx(4 * scale)


def test_clipping_leaves_zero_gradients_finite():
    gradient = torch.zeros(2)
    clip([gradient], 1.0)
    assert gradient.tolist() == [0, 0]
