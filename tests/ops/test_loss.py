import math

import pytest
import torch
import torch.nn.functional as F

from deep_interest.ops.loss import log_loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_are_those_of_torch(dtype):
    torch.manual_seed(0)
    logits = torch.cat([torch.randn(50), torch.tensor([0.0, 80, -80, 200, -200, 1e4, -1e4])]).to(dtype)
    labels = (torch.arange(len(logits)) % 3 == 0).to(dtype)
    exact = logits.double().requires_grad_()
    expected = F.binary_cross_entropy_with_logits(exact, labels.double())
    expected.backward()
    loss, gradient = log_loss(logits.requires_grad_(), labels)
    assert loss.dtype == gradient.dtype == dtype
    assert not loss.requires_grad
    assert not gradient.requires_grad
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient.double(), exact.grad, rtol=1e-6, atol=1e-8)


def test_a_loss_by_hand():
    loss, gradient = log_loss(torch.tensor([0.0, math.log(3)]), torch.tensor([1.0, 0.0]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert gradient.tolist() == pytest.approx([-0.25, 0.375])


@pytest.mark.parametrize("logit", [math.nan, math.inf])
def test_what_is_not_finite_is_seen(logit):
    assert not log_loss(torch.tensor([logit, 0.0]), torch.tensor([0.0, 1.0]))[0].isfinite()


def test_the_likelihood_of_a_click_that_may_still_come_by_hand():
    """p = 3/4 and F = 1/2: an unseen click has the likelihood 1 - 3/8, and its gradient the weight F (1 - p) / (1 - p F) = 1/5."""
    logits, labels = torch.full((2,), math.log(3), dtype=torch.float64), torch.tensor([1.0, 0.0]).double()
    loss, gradient = log_loss(logits, labels, None, torch.full((2,), 0.5, dtype=torch.float64))
    assert loss.item() == pytest.approx(-(math.log(3 / 4) + math.log(5 / 8)) / 2)
    assert gradient.tolist() == pytest.approx([-0.25 / 2, 0.75 * 0.2 / 2])
    weights = torch.tensor([1.0, 3.0]).double()
    loss, gradient = log_loss(logits, labels, weights, torch.full((2,), 0.5, dtype=torch.float64))
    assert loss.item() == pytest.approx(-(math.log(3 / 4) + 3 * math.log(5 / 8)) / 2)
    assert gradient.tolist() == pytest.approx([-0.25 / 2, 3 * 0.75 * 0.2 / 2])


def test_with_all_clicks_known_it_is_the_log_loss():
    torch.manual_seed(1)
    logits = torch.cat([torch.randn(50), torch.tensor([80.0, -80, 200, -200])])
    labels = (torch.arange(len(logits)) % 3 == 0).float()
    for ours, plain in zip(
        log_loss(logits, labels, None, torch.ones(len(logits))), log_loss(logits, labels), strict=True
    ):
        torch.testing.assert_close(ours, plain)


def test_the_gradient_of_delayed_labels_is_the_derivative_of_the_loss():
    torch.manual_seed(2)
    logits, arrived = torch.randn(40, dtype=torch.float64) * 4, torch.rand(40, dtype=torch.float64)
    labels = torch.rand(40, dtype=torch.float64)  # as those mixed with a teacher's predictions
    gradient, step = log_loss(logits, labels, None, arrived)[1], 1e-6
    for k in range(len(logits)):
        moved = torch.zeros(len(logits), dtype=torch.float64)
        moved[k] = step
        up, down = (log_loss(logits + sign * moved, labels, None, arrived)[0] for sign in (1, -1))
        assert gradient[k].item() == pytest.approx(((up - down) / (2 * step)).item(), abs=1e-8)


def test_the_best_constant_for_delayed_labels_is_the_true_rate():
    """10,000 rows, 30 % clicked in the end; half of the rows know 40 % of their clicks, the others all of them."""
    arrived = torch.cat([torch.full((5_000,), 0.4), torch.ones(5_000)]).double()
    labels = torch.zeros(10_000, dtype=torch.float64)
    labels[:600], labels[5_000:6_500] = 1.0, 1.0
    logit = torch.full((10_000,), math.log(0.3 / 0.7), dtype=torch.float64)
    assert log_loss(logit, labels, None, arrived)[1].sum().item() == pytest.approx(0, abs=1e-6)
    assert log_loss(logit, labels)[1].sum().item() > 0.08  # without it, the rate is too high by 30 %
