from contextlib import nullcontext

import pytest
import torch
from support.ops import jagged, layers_of, parameter_shapes, partitioned

from deep_interest.ops.attention import pair_mlp
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.mlp import Layers, mlp
from deep_interest.ops.weights import flatten
from deep_interest.training.update_rules import Flat


def test_parameters_that_are_adjacent_in_memory_are_not_copied():
    shapes = [(3, 2), (3,), (3,), (1, 3), (1,)]
    apart = [torch.randn(shape) for shape in shapes]
    expected = torch.cat([parameter.reshape(-1) for parameter in apart])
    vector = torch.cat([torch.zeros(4), expected])
    parts = zip(vector[4:].split([6, 3, 3, 3, 1]), shapes, strict=True)
    adjacent = [part.view(shape) for part, shape in parts]
    assert torch.equal(flatten(apart), expected)
    assert torch.equal(flatten(adjacent), expected)
    assert flatten(adjacent).data_ptr() == adjacent[0].data_ptr()
    assert torch.equal(flatten(adjacent[::-1]), torch.cat([part.reshape(-1) for part in adjacent[::-1]]))
    assert torch.equal(flatten([adjacent[0].t(), *adjacent[1:]])[:6], adjacent[0].t().reshape(-1))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [None, 1, 3])  # None: one partition
@pytest.mark.parametrize("over_pairs", [False, True])
def test_accumulated_gradients_are_those_of_autograd(threads, over_pairs):
    torch.manual_seed(0)
    tensors = [torch.randn(shape) for shape in parameter_shapes([12, 5, 3])]
    x, pairs = torch.randn(9, 4 if over_pairs else 12), jagged([4, 0, 5])
    queries = torch.randn(3, 4, requires_grad=True)

    def backward(parameters, accumulator):
        layers = layers_of(parameters, ["prelu", "prelu"])
        layers = Layers(layer._replace(weight=p) for layer, p in zip(layers, parameters[::3], strict=True))
        if over_pairs:
            out = pair_mlp(x, queries, layers, pairs, accumulator=accumulator)
        else:
            out = mlp(x, layers, accumulator=accumulator)
        (out * torch.linspace(1, 2, out.numel()).view_as(out)).sum().backward()

    expected = [tensor.clone().requires_grad_() for tensor in tensors]
    accumulated = [torch.nn.Parameter(tensor.clone()) for tensor in tensors]
    flat = Flat(accumulated)
    with partitioned(threads) if threads else nullcontext():
        for _ in range(2):  # the second backward pass adds to the first
            backward(expected, None)
            backward(accumulated, GradientAccumulator([]))
    for ours, theirs in zip(accumulated, expected, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
        assert ours.grad.untyped_storage().data_ptr() == flat.gradient.untyped_storage().data_ptr()
