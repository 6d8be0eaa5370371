"""How operations are partitioned at the real threshold: by their size alone, never by the number of threads."""

import threading

import pytest
import torch

from deep_interest.ops.activations import dice, prelu
from deep_interest.ops.runtime import parallel

THRESHOLD = 1 << 18  # values for which waking another thread pays
WIDTH = 64


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("work", "partitions"),
    [(0, 1), (2 * THRESHOLD - 1, 1), (2 * THRESHOLD, 2), (3 * THRESHOLD, 3), (100 * THRESHOLD, 8)],
)
def test_the_number_of_partitions_follows_from_the_size_alone(torch_threads, work, partitions):
    for threads in (1, 2, 3, 16):
        torch_threads(threads)
        assert parallel.partition_count(work) == partitions
        done = []
        parallel.run_kernel(lambda *partition, done=done: done.append(partition), work=work)
        assert sorted(done) == [(index, partitions) for index in range(partitions)]


def test_from_the_threshold_on_two_threads_work_at_the_same_time(torch_threads):
    torch_threads(2)
    both = threading.Barrier(2, timeout=60)  # one thread alone would never pass it
    parallel.run_kernel(lambda partition, partitions: both.wait(), work=2 * THRESHOLD)


def test_below_the_threshold_the_caller_does_all_of_the_work(torch_threads):
    torch_threads(2)
    done = []
    parallel.run_kernel(
        lambda partition, partitions: done.append(threading.get_ident()), work=2 * THRESHOLD - 1
    )
    assert done == [threading.get_ident()]


def reduced(operation):
    """The gradient of a parameter that sums over more rows than one partition has."""
    generator = torch.Generator().manual_seed(0)
    x, grad = torch.randn(2, 5 * THRESHOLD // WIDTH, WIDTH, generator=generator)
    parameter = torch.full((WIDTH,), 0.3, requires_grad=True)
    operation(x, parameter).backward(grad)
    return parameter.grad


def dice_in_training(x, alpha):
    return dice(x, alpha, torch.zeros(WIDTH), torch.ones(WIDTH), training=True, momentum=0.1, eps=1e-8)


@pytest.mark.parametrize("operation", [prelu, dice_in_training])
def test_sums_over_partitions_have_the_same_bits_for_any_number_of_threads(torch_threads, operation):
    torch_threads(1)
    one = reduced(operation)
    for threads in (2, 3, 5):
        torch_threads(threads)
        assert torch.equal(reduced(operation), one)


def test_partitions_by_threads_would_change_bits(torch_threads, monkeypatch):
    """Partitions that depend on the number of threads round sums differently."""
    monkeypatch.setattr(parallel, "partition_count", lambda work: torch.get_num_threads())
    monkeypatch.setattr("deep_interest.ops.activations.partition_count", lambda work: torch.get_num_threads())
    found = []
    for threads in (1, 2):
        torch_threads(threads)
        found.append(reduced(prelu))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-2)
    assert not torch.equal(*found)
