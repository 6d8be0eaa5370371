import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import assert_implementations_agree, layers_of, parameter_shapes, partitioned

from deep_interest.ops.mlp import Layer, Layers, mlp

WIDTHS = st.lists(st.integers(1, 40), min_size=2, max_size=4)
ACTIVATIONS = st.lists(st.sampled_from(["linear", "prelu", "relu", "sigmoid"]), min_size=3, max_size=3)


@given(st.sampled_from([0, 1, 7, 250]), WIDTHS, ACTIVATIONS)
@settings(max_examples=15, deadline=None)
def test_mlp_implementations_agree(rows, widths, activations):
    def operation(x, *parameters):
        return mlp(x, layers_of(parameters, activations))

    assert_implementations_agree(operation, (rows, widths[0]), *parameter_shapes(widths), atol=1e-4)


def test_the_number_of_threads_changes_no_bit_of_an_mlp():
    torch.manual_seed(0)
    x = torch.randn(2_000, 64, requires_grad=True)
    layer = Layer(torch.randn(80, 64, requires_grad=True), torch.zeros(80))
    gradients = []
    for threads in (1, 3):
        with partitioned(threads):
            mlp(x, Layers([layer])).square().sum().backward()
        gradients.append([x.grad.clone(), layer.weight.grad.clone()])
        x.grad = layer.weight.grad = None
    for one, several in zip(*gradients, strict=True):
        assert torch.equal(one, several)
