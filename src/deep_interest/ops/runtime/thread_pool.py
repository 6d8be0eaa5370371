"""Threads that share the parts of an operation, and stay awake between the operations of a step.

Waking a thread that sleeps takes as long as many an operation. A helper that has done its part looks for the next task for a while,
in compiled code that leaves the interpreter to others, before it sleeps.
"""

import os
import threading
import time
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

SPIN_LIMIT = 3_000_000  # for the next task, before a helper sleeps: about a millisecond


YIELD_SPINS = 20_000  # looks for which a helper that has a task leaves the interpreter to the one who asked: until he is in compiled code, too


_REQUESTED, _COMPLETED = 0, 8  # where a helper's counts of tasks lie, in different lines of the cache


class Worker(threading.Thread):
    """A thread that does one task at a time.

    Args:
        number: what its tasks know it by.
    """

    def __init__(self, number: int) -> None:
        super().__init__(name="ops", daemon=True)
        self._number, self._counts = number, np.zeros(16, np.int64)
        self._task: Callable[[int], None] | None = None
        self._error: BaseException | None = None
        self._asleep, self._bell = False, threading.Condition()
        self.start()

    def begin(self, task: Callable[[int], None]) -> None:
        """Have a task done, after the one before if somebody was interrupted while he waited for that."""
        self._wait()
        self._task, self._error = task, None
        self._counts[_REQUESTED] += 1
        if self._asleep:
            with self._bell:
                self._bell.notify()

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
        while not _spin_until(self._counts, _COMPLETED, self._counts[_REQUESTED], SPIN_LIMIT):
            time.sleep(1e-4)

    def run(self) -> None:
        done = 0
        while True:
            if not _wait_for_task(self._counts, done, SPIN_LIMIT):
                with self._bell:
                    self._asleep = True
                    self._bell.wait_for(lambda: self._counts[_REQUESTED] > done)  # noqa: B023
                    self._asleep = False
            try:
                assert self._task is not None
                self._task(self._number)
            except BaseException as error:
                self._error = error
            self._task = None
            done += 1


_workers: list[Worker] = []


_pool_lock = threading.Lock()


def parallel_for(task: Callable[[int], None], helpers: int) -> None:
    """Do a task here and in so many helpers at once; here alone while another thread has them, or with ``NUMBA_DISABLE_JIT=1``.

    Args:
        task: is given a number: 0 here, and in the helpers the same one every time, from 1.
        helpers: how many.

    Raises:
        BaseException: what the task raised in one of them.
    """
    if not helpers or config.DISABLE_JIT or not _pool_lock.acquire(blocking=False):
        task(0)
        return
    try:
        while len(_workers) < helpers:
            _workers.append(Worker(1 + len(_workers)))
        try:
            for helper in _workers[:helpers]:
                helper.begin(task)
            task(0)
        finally:
            for helper in _workers[:helpers]:
                helper.finish()
    finally:
        _pool_lock.release()


def _reset_after_fork() -> None:
    """A forked process has none of the threads."""
    global _pool_lock  # noqa: PLW0603
    _workers.clear()
    _pool_lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_reset_after_fork)


@njit(cache=True, nogil=True, fastmath=False)
def _wait_for_task(counts, done, looks):
    """Say that a task is done, and look for the next one; whether it has come.

    Who waits for a task to be done learns of it here, where the interpreter is free for him.
    """
    _atomic_store(counts.ctypes.data + 8 * _COMPLETED, done)
    if not _spin_until(counts, _REQUESTED, done + 1, looks):
        return False
    _spin_until(counts, _REQUESTED, done + 2, YIELD_SPINS)
    return True


@njit(cache=True, nogil=True, fastmath=False)
def _spin_until(counts, place, wanted, looks):
    """Look whether a count has come to what is wanted, so many times."""
    for _ in range(looks):
        if _atomic_load(counts.ctypes.data + 8 * place) >= wanted:
            return True
    return False


@intrinsic
def _atomic_load(typing, address):
    def generate(context, builder, signature, arguments):
        number = ir.IntType(64)
        return builder.load_atomic(builder.inttoptr(arguments[0], number.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _atomic_store(typing, address, value):
    def generate(context, builder, signature, arguments):
        number = ir.IntType(64)
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], number.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate
