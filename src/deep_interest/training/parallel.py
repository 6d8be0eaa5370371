"""Parallel fits: one process with one thread each, so that cores do not wait for one another."""

import contextlib
import logging
import mmap
import multiprocessing
import multiprocessing.process
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from deep_interest.errors import InputError
from deep_interest.training.worker_logs import LogPipe, LogRelay, send_records

_alive: list[Connection] = []  # this end of the pipe to the pool: the system closes it when this process dies


def map_seeds(
    fit: Callable[..., Any], shared: tuple[Any, ...], seeds: Sequence[int], *, processes: int
) -> list[Any]:
    """Call ``fit(*shared, seed)`` for each seed and return the results in the order of the seeds.

    With more than one process each fit has one thread, so that its result does not depend on the number of processes.
    The processes are kept for the next call; they end when this process dies for any reason. Their log records are shown by
    this process. A process of ``multiprocessing``, such as those of Kedro's ``ParallelRunner``, starts none: it would wait for
    them forever when it ends.

    Args:
        fit: function of a module; its arguments and results are pickled.
        shared: arguments before the seed.
        seeds: one call per seed.
        processes: maximum number of processes.

    Raises:
        InputError: one of the processes ended early, such as one that the system killed because memory ran out.
    """
    workers = min(processes, len(seeds))
    if workers <= 1 or multiprocessing.parent_process():
        return [fit(*shared, seed) for seed in seeds]
    level = logging.getLogger("deep_interest").getEffectiveLevel()
    pool, logs = _pool(workers, fit.__module__)
    children = multiprocessing.active_children()  # of an earlier call; a list without those that have ended
    with nullcontext() if fit.__module__ == "__main__" else _without_main_module():
        calls = [pool.submit(_call, level, fit, *shared, seed) for seed in seeds]
    children += [child for child in multiprocessing.active_children() if child not in children]
    try:
        return [call.result() for call in calls]
    except BaseException as error:
        reason = _reason(children, workers) if isinstance(error, BrokenProcessPool) else None
        _pool.cache_clear()
        while _alive:
            _alive.pop().close()  # ends the other fits; their saved states remain
        pool.shutdown(wait=False, cancel_futures=True)
        if reason:
            raise InputError(reason) from error
        raise
    finally:
        logs.flush()


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Start processes that do not import the main module again: they run functions of this package only.

    Python would run a script without ``if __name__ == "__main__":`` once more in every process, and each of them would fail.
    """
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {
        name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__
    }
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update(hidden)


def _reason(children: Sequence[multiprocessing.process.BaseProcess], workers: int) -> str:
    """Say why a process ended before its fit did, and what to do."""
    for child in children:
        child.join(1)
    codes = [child.exitcode for child in children if child.exitcode]
    codes = [code for code in codes if code != -signal.SIGTERM] or codes  # the pool terminates the others
    resume = "run the same command again to resume"
    if -signal.SIGKILL in codes:
        return (
            f"one of {workers} processes was killed by the system (signal 9), most likely because memory ran out; {resume}, with "
            "fewer processes (training.processes=1, tuning.workers=1) or other programs closed. If a single process is killed "
            "too, lower training.options.batch_size or training.options.max_len"
        )
    code = codes[0] if codes else 0
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    return (
        f"one of {workers} processes ended with {how} before its fit did; its own error is above. To train in this process instead, "
        f"set training.processes=1; {resume}"
    )


def _reduce_mapped(array: np.memmap) -> str | tuple[Any, ...]:
    """Pickle a memory-mapped file by its name, and a slice of one by its content."""
    if not isinstance(array.base, mmap.mmap):
        return np.asarray(array).__reduce__()
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return np.memmap, (array.filename, array.dtype, "c", array.offset, array.shape, order)


@cache
def _pool(workers: int, module: str) -> tuple[ProcessPoolExecutor, LogRelay]:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([module])  # imports torch once for all workers
    ForkingPickler.register(np.memmap, _reduce_mapped)
    ended, alive = context.Pipe(duplex=False)
    _alive.append(alive)
    logs = LogRelay(context)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(ended, logs.pipe))
    return pool, logs


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _call(log_level: int, fit: Callable[..., Any], *arguments: Any) -> Any:
    logging.getLogger("deep_interest").setLevel(log_level)
    return fit(*arguments)


def _begin(parent: Connection, logs: LogPipe) -> None:
    """Prepare a worker: one thread, log records for the parent, and an exit when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches every process of the terminal
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    # The default lock of tqdm is a semaphore, which a worker that is ended would leave behind.
    tqdm.set_lock(threading.RLock())
    send_records(logs)


def _end_with(parent: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    os._exit(1)
