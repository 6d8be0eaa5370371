import gc

import numpy as np
import pytest
import torch

from deep_interest.ops.runtime.memory import POOL_MIN_BYTES, BufferPool, empty, use_pool

LIKE = torch.zeros(1)


def test_a_buffer_is_reused_when_nothing_refers_to_its_tensor():
    with use_pool(BufferPool()):
        first = empty(LIKE, POOL_MIN_BYTES, 2)
        address, view = first.data_ptr(), first[5:]
        del first
        assert empty(LIKE, POOL_MIN_BYTES, 2).data_ptr() != address  # a view still refers to it
        del view
        assert empty(LIKE, POOL_MIN_BYTES, 2).data_ptr() == address


def test_a_tensor_that_autograd_saved_keeps_its_buffer():
    with use_pool(BufferPool()):
        weight = torch.ones(POOL_MIN_BYTES, requires_grad=True)
        saved = empty(LIKE, POOL_MIN_BYTES).fill_(3.0)
        product = (weight * saved).sum()
        del saved
        empty(LIKE, POOL_MIN_BYTES).fill_(7.0)
        product.backward()
    assert weight.grad.unique().tolist() == [3.0]


@pytest.mark.slow
def test_tensors_in_use_do_not_overlap_and_are_aligned():
    with use_pool(BufferPool()):
        tensors = [empty(LIKE, POOL_MIN_BYTES // 2 + 100 * k, 3).fill_(float(k)) for k in range(6)]
    for k, tensor in enumerate(tensors):
        assert tensor.shape == (POOL_MIN_BYTES // 2 + 100 * k, 3)
        assert tensor.data_ptr() % 64 == 0
        assert tensor.unique().tolist() == [k]


@pytest.mark.slow
def test_a_pool_never_keeps_more_than_was_in_use_at_once():
    pool = BufferPool()
    with use_pool(pool):
        kept = [empty(LIKE, POOL_MIN_BYTES) for _ in range(4)]
        most = pool.used
        del kept
        for size in range(1, 50):  # all of different sizes
            empty(LIKE, POOL_MIN_BYTES + size * POOL_MIN_BYTES // 20)
            assert pool.used + pool.free <= most
    gc.collect()
    assert pool.used + pool.free <= most
    assert most < 4 * 4 * POOL_MIN_BYTES * 1.15


def test_small_arrays_and_other_types_do_not_use_the_pool():
    pool = BufferPool()
    with use_pool(pool):
        empty(LIKE, POOL_MIN_BYTES // 4 - 1)
        empty(LIKE.double(), POOL_MIN_BYTES)
        assert empty(LIKE, 0, 5).shape == (0, 5)
    empty(LIKE, POOL_MIN_BYTES)
    assert pool.used == pool.free == 0


def test_an_array_may_be_freed_by_another_thread_or_after_its_pool():
    pool = BufferPool()
    array = pool.take(POOL_MIN_BYTES)
    del pool
    array[:] = np.float32(1)
    assert array.sum() == POOL_MIN_BYTES
