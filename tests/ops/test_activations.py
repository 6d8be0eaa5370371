import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import assert_implementations_agree

from deep_interest.ops.activations import dice, prelu


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_prelu_implementations_agree(rows):
    assert_implementations_agree(prelu, (rows, 6), (6,))


def test_prelu_scales_negative_values_only():
    x, slope = torch.tensor([[-2.0, 0.0, 3.0]]), torch.tensor([0.5, 0.5, 0.5])
    assert prelu(x, slope).tolist() == [[-1.0, 0.0, 3.0]]


@given(st.integers(2, 60), st.booleans())
@settings(max_examples=15, deadline=None)
def test_dice_implementations_and_moving_averages_agree(rows, training):
    def operation(x, alpha):
        mean, variance = x.new_full((6,), 0.3), x.new_full((6,), 0.7)
        y = dice(x, alpha, mean, variance, training=training, momentum=0.1, eps=1e-3)
        return torch.cat([y, mean[None], variance[None]])

    assert_implementations_agree(operation, (rows, 6), (6,))


def test_dice_is_precise_far_from_zero():
    x, alpha = torch.randn(1000, 1) * 0.1 + 300, torch.zeros(1)
    y = dice(x, alpha, torch.zeros(1), torch.ones(1), training=True, momentum=0.1, eps=1e-8)
    standard = (x.double() - x.double().mean()) / x.double().std(correction=0)
    torch.testing.assert_close((y / x).double(), standard.sigmoid(), atol=1e-3, rtol=0)
