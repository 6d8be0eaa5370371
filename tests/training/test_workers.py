"""The processes that fit seeds: what each does when it begins and ends, seen from within one process."""

import logging
import multiprocessing
import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from deep_interest.training import parallel
from deep_interest.training.parallel import map_seeds, usable_cores


class LeftError(Exception):
    """In place of the end of this process."""


def leave(status):
    raise LeftError(status)


@pytest.fixture
def pipe():
    ends = multiprocessing.get_context("spawn").Pipe(duplex=False)
    yield ends
    for end in ends:
        end.close()


def test_a_worker_ends_with_status_1_when_its_parents_end_of_the_pipe_is_closed(monkeypatch, pipe):
    monkeypatch.setattr(os, "_exit", leave)
    reader, writer = pipe
    writer.close()
    with pytest.raises(LeftError, match=r"^1$"):
        parallel._end_with(reader)
    reader.close()
    with pytest.raises(LeftError, match=r"^1$"):  # a pipe that is gone is the same
        parallel._end_with(reader)


def test_a_worker_begins_with_one_thread_that_ctrl_c_ends_and_watches_its_parent(monkeypatch, pipe):
    threads, signals, logs, started = [], [], [], []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(signal, "signal", lambda *arguments: signals.append(arguments))
    monkeypatch.setattr(parallel, "send_records", logs.append)

    class Thread:
        def __init__(self, **options):
            self.options = options

        def start(self):
            started.append(self.options)

    monkeypatch.setattr(threading, "Thread", Thread)
    locks = []
    monkeypatch.setattr(parallel.tqdm, "set_lock", locks.append)
    parallel._begin(pipe[0], "pipe of the logs")
    assert [type(lock) for lock in locks] == [
        type(threading.RLock())
    ]  # of this process, no semaphore of the system
    assert threads == [1]
    assert signals == [(signal.SIGINT, signal.SIG_DFL)]
    assert started == [{"target": parallel._end_with, "args": (pipe[0],), "daemon": True}]
    assert logs == ["pipe of the logs"]


def test_a_call_in_a_worker_logs_as_its_parent_does():
    logger = logging.getLogger("deep_interest")
    before = logger.level
    try:
        assert parallel._call(logging.ERROR, lambda *arguments: arguments, 1, 2) == (1, 2)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


class Context:
    def __init__(self, method):
        self.method, self.preloaded = method, None

    def set_forkserver_preload(self, modules):
        self.preloaded = modules

    def Pipe(self, *, duplex):  # noqa: N802
        assert not duplex
        return f"reader of {self.method}", f"writer of {self.method}"


@pytest.mark.parametrize(
    ("methods", "chosen"), [(["fork", "spawn", "forkserver"], "forkserver"), (["spawn"], "spawn")]
)
def test_the_pool_is_made_of_a_fork_server_where_there_is_one(monkeypatch, methods, chosen):
    made = []
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: methods)
    monkeypatch.setattr(multiprocessing, "get_context", Context)
    monkeypatch.setattr(parallel, "_alive", [])
    monkeypatch.setattr(
        parallel, "LogRelay", lambda context: SimpleNamespace(pipe=f"logs of {context.method}")
    )
    monkeypatch.setattr(
        parallel, "ProcessPoolExecutor", lambda *sizes, **options: made.append((sizes, options))
    )
    parallel._pool.__wrapped__(3, "some.module")
    ((sizes, options),) = made
    assert sizes == (3,)
    assert options["mp_context"].method == chosen
    assert options["mp_context"].preloaded == (["some.module"] if chosen == "forkserver" else None)
    assert options["initializer"] is parallel._begin
    assert options["initargs"] == (f"reader of {chosen}", f"logs of {chosen}")
    assert parallel._alive == [f"writer of {chosen}"]


def test_a_mapped_array_goes_by_its_file_with_type_offset_shape_and_order(tmp_path):
    file = tmp_path / "values.bin"
    np.arange(24, dtype=np.int16).tofile(file)
    for order in ("C", "F"):
        array = np.memmap(file, np.int16, "r", offset=4, shape=(2, 5), order=order)
        kind, arguments = parallel._reduce_mapped(array)
        assert kind is np.memmap
        assert arguments == (file, np.int16, "c", 4, (2, 5), order)
        copy = kind(*arguments)
        np.testing.assert_array_equal(copy, array)
        copy[0, 0] = 99  # a copy on write
        assert array[0, 0] == 2
    row = np.memmap(file, np.int16, "r", shape=(6,))
    assert parallel._reduce_mapped(row)[1][-1] == "C"
    make, arguments, state = parallel._reduce_mapped(row[2:4])
    assert make is not np.memmap
    part = make(*arguments)
    part.__setstate__(state)
    assert part.tolist() == [2, 3]


def test_the_cores_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0: {2, 3, 5}}[process], raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, expected in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert usable_cores() == expected


def test_no_more_workers_than_seeds(monkeypatch):
    asked = []

    class Pool:
        def submit(self, call, level, fit, *arguments):
            raise LeftError

        def shutdown(self, **options):
            asked.append(options)

    def pool(workers, module):
        asked.append((workers, module))
        return Pool(), SimpleNamespace(flush=lambda: asked.append("flushed"))

    pool.cache_clear = lambda: asked.append("cleared")
    monkeypatch.setattr(parallel, "_pool", pool)
    with pytest.raises(LeftError):
        map_seeds(leave, (), (1, 2, 3), processes=9)
    assert asked[0] == (3, __name__)
