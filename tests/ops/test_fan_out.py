import pytest
import torch
from support.ops import assert_writings_agree

from deep_interest.ops.segments import fan_out


def both(rows, weight):
    one, other = fan_out(rows)
    return one * weight + other.square()


def test_two_users_of_rows_are_as_one():
    assert_writings_agree(both, (40, 7), (40, 7))


@pytest.mark.parametrize("used", [0, 1])
def test_a_user_without_a_gradient_adds_none(used):
    rows = torch.randn(5, 3, requires_grad=True)
    (fan_out(rows)[used] * 2).sum().backward()
    torch.testing.assert_close(rows.grad, torch.full((5, 3), 2.0), rtol=0, atol=0)


def test_rows_that_need_no_gradient_are_themselves():
    rows = torch.randn(5, 3)
    assert all(given is rows for given in fan_out(rows))
