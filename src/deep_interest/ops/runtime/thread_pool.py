"""A thread pool whose workers spin between the kernels of a training step.

Waking a parked thread costs more than many of our kernels. So a worker that has finished a task spins for a while,
in compiled code that releases the GIL, before it parks on a condition variable.
"""

import os
import threading
import time
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from deep_interest.ops.runtime.jit import is_jit_disabled

SPIN_LIMIT = 3_000_000  # polls for the next task before a worker parks: about a millisecond
YIELD_SPINS = (
    20_000  # polls for which a worker that has a task leaves the GIL to the caller, to enter its own kernel
)
_REQUESTED, _COMPLETED = 0, 8  # positions of a worker's task counters, on different cache lines


class Worker(threading.Thread):
    """A thread that runs one task at a time.

    Args:
        index: what its tasks are called with.
    """

    def __init__(self, index: int) -> None:
        super().__init__(name="ops", daemon=True)
        self._index, self._counters = index, np.zeros(16, np.int64)
        self._task: Callable[[int], None] | None = None
        self._error: BaseException | None = None
        self._parked, self._wake_up = False, threading.Condition()
        self.start()

    def begin(self, task: Callable[[int], None]) -> None:
        """Start a task, after the previous one if its caller was interrupted while waiting for it."""
        self._wait()
        self._task, self._error = task, None
        self._counters[_REQUESTED] += 1
        if self._parked:
            with self._wake_up:
                self._wake_up.notify()

    def finish(self) -> None:
        """Wait until the task is done.

        Raises:
            BaseException: what the task raised.
        """
        self._wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _wait(self) -> None:
        while not _spin_until(self._counters, _COMPLETED, self._counters[_REQUESTED], SPIN_LIMIT):
            time.sleep(1e-4)

    def run(self) -> None:
        completed = 0
        while True:
            if not _wait_for_task(self._counters, completed, SPIN_LIMIT):
                with self._wake_up:
                    self._parked = True
                    self._wake_up.wait_for(lambda: self._counters[_REQUESTED] > completed)  # noqa: B023
                    self._parked = False
            try:
                assert self._task is not None
                self._task(self._index)
            except BaseException as error:
                self._error = error
            self._task = None
            completed += 1


_workers: list[Worker] = []
_pool_lock = threading.Lock()


def parallel_for(task: Callable[[int], None], workers: int) -> None:
    """Call a task in this thread and in some workers at once; in this thread alone while another one uses the pool.

    Args:
        task: called with the index of the thread: 0 in this thread, 1 to ``workers`` in the workers, the same in
            every call.
        workers: number of workers.

    Raises:
        BaseException: what the task raised in one of the threads.
    """
    if not workers or is_jit_disabled() or not _pool_lock.acquire(blocking=False):
        task(0)
        return
    try:
        while len(_workers) < workers:
            _workers.append(Worker(1 + len(_workers)))
        try:
            for worker in _workers[:workers]:
                worker.begin(task)
            task(0)
        finally:
            for worker in _workers[:workers]:
                worker.finish()
    finally:
        _pool_lock.release()


def _reset_after_fork() -> None:
    """Forget the workers: a forked process does not have the threads of its parent."""
    global _pool_lock  # noqa: PLW0603
    _workers.clear()
    _pool_lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_reset_after_fork)


@njit(cache=True, nogil=True, fastmath=False)
def _wait_for_task(counters, completed, spins):
    """Publish how many tasks are completed, then spin until the next is requested; returns whether it was.

    A caller that waits for a task learns of its end here, while the worker does not hold the GIL.
    """
    # numba's types count the typing context, which it adds itself, as an argument of an intrinsic
    _atomic_store(counters.ctypes.data + 8 * _COMPLETED, completed)  # type: ignore[call-arg]
    if not _spin_until(counters, _REQUESTED, completed + 1, spins):
        return False
    _spin_until(counters, _REQUESTED, completed + 2, YIELD_SPINS)
    return True


@njit(cache=True, nogil=True, fastmath=False)
def _spin_until(counters, position, target, spins):
    """Poll a counter until it has reached a target, at most ``spins`` times; returns whether it has."""
    for _ in range(spins):
        if _atomic_load(counters.ctypes.data + 8 * position) >= target:  # type: ignore[call-arg]  # as above
            return True
    return False


@intrinsic
def _atomic_load(typing, address):
    def generate(context, builder, signature, arguments):
        int64 = ir.IntType(64)
        return builder.load_atomic(builder.inttoptr(arguments[0], int64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _atomic_store(typing, address, value):
    def generate(context, builder, signature, arguments):
        int64 = ir.IntType(64)
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], int64.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate
