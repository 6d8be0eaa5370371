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
