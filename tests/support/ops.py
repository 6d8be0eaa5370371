"""What every operation must hold: its compiled writing agrees with the plain one, in values and in gradients."""

from contextlib import contextmanager

import torch
from hypothesis import strategies as st

from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime import parallel
from deep_interest.ops.runtime.engine import Engine, set_engine

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=7)


def runs(lengths) -> Jagged:
    return Jagged(torch.tensor([0, *lengths]).cumsum(0))


def assert_writings_agree(operation, *shapes, threads=(1, 3), seed=0, atol=1e-5):
    """``operation(*tensors)`` of random tensors: float32 (compiled) as float64 (plain), for any number of threads.

    Args:
        operation: takes a tensor for each shape; returns one tensor.
        shapes: of the arguments.
        threads: the numbers to try.
        seed: of the arguments.
        atol: of the comparison.
    """
    torch.manual_seed(seed)
    given = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    plain = values_and_gradients(operation, given)
    for number in threads:
        with sharing(number):
            found = values_and_gradients(operation, [tensor.float() for tensor in given])
        for ours, expected in zip(found, plain, strict=True):
            assert ours.dtype == torch.float32
            torch.testing.assert_close(ours.double(), expected, atol=atol, rtol=1e-5)


def values_and_gradients(operation, tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    out = operation(*leaves)
    torch.manual_seed(1)
    (out * torch.randn(out.shape, dtype=torch.float64).to(out)).sum().backward()
    return [out.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad.to_dense() for x in leaves)]


@contextmanager
def sharing(threads: int):
    """Let this many threads share even the smallest operation."""
    before, enough = torch.get_num_threads(), parallel.MIN_PARTITION_WORK
    torch.set_num_threads(threads)
    parallel.MIN_PARTITION_WORK = 0
    try:
        yield
    finally:
        torch.set_num_threads(before)
        parallel.MIN_PARTITION_WORK = enough


@contextmanager
def use_engine(engine: Engine):
    """Run the operations by an engine, afterwards again by the default one."""
    set_engine(engine)
    try:
        yield
    finally:
        set_engine(None)
