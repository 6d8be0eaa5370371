"""What every operation must satisfy: its compiled and its plain implementation agree, in values and in gradients."""

from contextlib import contextmanager
from itertools import pairwise

import torch
from hypothesis import strategies as st

from deep_interest.ops.jagged import Jagged
from deep_interest.ops.mlp import Layer, Layers
from deep_interest.ops.runtime import parallel
from deep_interest.ops.runtime.engine import Engine, set_engine

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=7)


def jagged(lengths) -> Jagged:
    return Jagged(torch.tensor([0, *lengths]).cumsum(0))


def assert_implementations_agree(operation, *shapes, threads=(1, 3), seed=0, atol=1e-5):
    """Compare ``operation(*tensors)`` of random tensors in float32 (compiled) and float64 (plain).

    Args:
        operation: takes a tensor for each shape; returns one tensor.
        shapes: shapes of the arguments.
        threads: numbers of threads.
        seed: seed of the arguments.
        atol: absolute tolerance.
    """
    torch.manual_seed(seed)
    arguments = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    plain = values_and_gradients(operation, arguments)
    for count in threads:
        with partitioned(count):
            compiled = values_and_gradients(operation, [tensor.float() for tensor in arguments])
        for ours, expected in zip(compiled, plain, strict=True):
            assert ours.dtype == torch.float32
            torch.testing.assert_close(ours.double(), expected, atol=atol, rtol=1e-5)


def values_and_gradients(operation, tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    out = operation(*leaves)
    torch.manual_seed(1)
    (out * torch.randn(out.shape, dtype=torch.float64).to(out)).sum().backward()
    return [out.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad.to_dense() for x in leaves)]


@contextmanager
def partitioned(threads: int):
    """Divide even the smallest kernel call into the most partitions, run by this many threads."""
    outer, min_work = torch.get_num_threads(), parallel.MIN_PARTITION_WORK
    torch.set_num_threads(threads)
    parallel.MIN_PARTITION_WORK = 0
    try:
        yield
    finally:
        torch.set_num_threads(outer)
        parallel.MIN_PARTITION_WORK = min_work


def layers_of(parameters, activations):
    """Layers from weight, bias and slope of each; weights are small, so that float32 is as precise as it can be."""
    triples = zip(*[iter(parameters)] * 3, activations, strict=False)
    return Layers(
        Layer(weight * 0.2, bias, kind, slope if kind == "prelu" else None)
        for weight, bias, slope, kind in triples
    )


def parameter_shapes(widths):
    """Shapes of weight, bias and slope of each layer."""
    return [shape for i, o in pairwise(widths) for shape in ((o, i), (o,), (o,))]


@contextmanager
def use_engine(engine: Engine):
    """Run the operations by an engine, afterwards again by the default one."""
    set_engine(engine)
    try:
        yield
    finally:
        set_engine(None)
