"""Fits side by side: one process and one thread each, so that the cores do not wait for one another."""

import contextlib
import logging
import mmap
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch

from deep_interest.errors import InputError

_alive: list[Connection] = []  # our end of the pool's pipe: the system closes it when we die


def map_seeds(
    fit: Callable[..., Any], shared: tuple[Any, ...], seeds: Sequence[int], *, processes: int
) -> list[Any]:
    """``fit(*shared, seed)`` for each seed, in the order of the seeds.

    With more than one process each fit has one thread, whatever their number, so that its result does not depend on it.
    The processes stay for the next call; when this one dies, however it dies, they end too.

    Args:
        fit: a function of a module; what it takes and returns is pickled.
        shared: the arguments before the seed.
        seeds: one call each.
        processes: at most this many at once.

    Raises:
        InputError: the system has ended one of the processes.
    """
    workers = min(processes, len(seeds))
    if workers <= 1:
        return [fit(*shared, seed) for seed in seeds]
    level = logging.getLogger("deep_interest").getEffectiveLevel()
    pool = _pool(workers, fit.__module__)
    calls = [pool.submit(_call, level, fit, *shared, seed) for seed in seeds]
    try:
        return [call.result() for call in calls]
    except BaseException as error:
        _pool.cache_clear()
        while _alive:
            _alive.pop().close()  # the other fits end, and their finished steps stay saved
        pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise InputError(
                f"one of {workers} processes was killed, perhaps as memory was short; the same command goes on from there, with "
                "fewer at once by training.processes or tuning.workers"
            ) from error
        raise


def _reduce_mapped(array: np.memmap) -> tuple[Any, ...]:
    """A mapped file goes to another process by its name, not by its content; a part of one by its content."""
    if not isinstance(array.base, mmap.mmap):
        return np.asarray(array).__reduce__()
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return np.memmap, (array.filename, array.dtype, "c", array.offset, array.shape, order)


@cache
def _pool(workers: int, module: str) -> ProcessPoolExecutor:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([module])  # torch is imported once for all
    ForkingPickler.register(np.memmap, _reduce_mapped)
    ended, alive = context.Pipe(duplex=False)
    _alive.append(alive)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(ended,))


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _call(log_level: int, fit: Callable[..., Any], *arguments: Any) -> Any:
    logging.getLogger("deep_interest").setLevel(log_level)
    return fit(*arguments)


def _begin(parent: Connection) -> None:
    """Prepare a worker: one thread, the project's plain log lines, and an end when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches every process of the terminal
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    logging.basicConfig(
        format="%(asctime)s  %(message)s", datefmt="%H:%M:%S", level=logging.WARNING, stream=sys.stderr
    )


def _end_with(parent: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    os._exit(1)
