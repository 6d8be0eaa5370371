"""Fits side by side: one process and one thread each, so that the cores do not wait for one another."""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import torch

_shared: tuple[Any, ...] = ()


def map_seeds(
    fit: Callable[..., Any], shared: tuple[Any, ...], seeds: Sequence[int], *, processes: int
) -> list[Any]:
    """``fit(*shared, seed)`` for each seed, in the order of the seeds.

    With more than one process each fit has one thread, whatever their number, so that its result does not depend on it.
    When this process dies, however it dies, the others end too.

    Args:
        fit: a function of a module; what it takes and returns is pickled.
        shared: the arguments before the seed, sent to each process once.
        seeds: one call each.
        processes: at most this many at once.
    """
    workers = min(processes, len(seeds))
    if workers <= 1:
        return [fit(*shared, seed) for seed in seeds]
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([fit.__module__])  # torch is imported once for all
    logger = logging.getLogger("deep_interest")
    ended, alive = context.Pipe(duplex=False)  # the system closes our end when we die
    arguments = (shared, logger.getEffectiveLevel(), ended)
    with (
        alive,
        ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=arguments) as pool,
    ):
        return list(pool.map(_call, [fit] * len(seeds), seeds))


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _call(fit: Callable[..., Any], seed: int) -> Any:
    return fit(*_shared, seed)


def _begin(shared: tuple[Any, ...], log_level: int, parent: Connection) -> None:
    """Prepare a worker: one thread, the project's plain log lines, and an end when its parent ends."""
    global _shared  # noqa: PLW0603  a worker's memory is its own
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches every process of the terminal
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    logging.basicConfig(
        format="%(asctime)s  %(message)s", datefmt="%H:%M:%S", level=logging.WARNING, stream=sys.stderr
    )
    logging.getLogger("deep_interest").setLevel(log_level)


def _end_with(parent: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    os._exit(1)
