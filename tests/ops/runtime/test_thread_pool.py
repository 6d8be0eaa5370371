import subprocess
import sys
import threading
import time
from itertools import count

import pytest

from deep_interest.ops.runtime import thread_pool

FORKED = """
import os
from deep_interest.ops.runtime import thread_pool

thread_pool.parallel_for(lambda index: None, 2)
if os.fork() == 0:
    done = []
    thread_pool.parallel_for(done.append, 2)
    os._exit(len(done))
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_a_task_runs_in_the_caller_and_in_every_worker():
    seen = {}
    for workers in (0, 1, 3, 1):
        for _ in range(50):
            threads = []
            thread_pool.parallel_for(
                lambda index, threads=threads: threads.append((index, threading.get_ident())), workers
            )
            assert [index for index, _ in sorted(threads)] == list(range(workers + 1))
            assert dict(threads)[0] == threading.get_ident()
            for index, thread in threads:
                assert seen.setdefault(index, thread) == thread
    assert len(set(seen.values())) == 4


def test_a_parked_worker_is_woken():
    thread_pool.parallel_for(lambda index: None, 1)
    (worker, *_) = thread_pool._workers
    deadline = time.monotonic() + 30
    while not worker._parked and time.monotonic() < deadline:
        time.sleep(0.01)
    assert worker._parked
    done = []
    thread_pool.parallel_for(lambda index: done.append(1), 1)
    assert done == [1, 1]


@pytest.mark.parametrize("where", ["caller", "worker"])
def test_an_error_is_raised_after_all_threads_have_finished(where):
    ours, finished = threading.get_ident(), []

    def task(index):
        if (threading.get_ident() == ours) == (where == "caller"):
            raise ValueError("not this one")
        time.sleep(0.05)
        finished.append(1)

    with pytest.raises(ValueError, match="not this one"):
        thread_pool.parallel_for(task, 1)
    assert finished == [1]
    thread_pool.parallel_for(lambda index: finished.append(2), 1)
    assert finished == [1, 2, 2]


def test_a_task_begins_after_one_that_nobody_waited_for():
    done, worker = [], thread_pool.Worker(1)
    worker.begin(lambda index: time.sleep(0.1) or done.append("first"))
    worker.begin(lambda index: done.append("second"))
    worker.finish()
    assert done == ["first", "second"]


@pytest.mark.slow
def test_concurrent_callers_all_get_their_work_done():
    sums = {}

    def call(name):
        for _ in range(200):
            remaining, done = count(), []

            def task(index, remaining=remaining, done=done):
                while (partition := next(remaining)) < 8:
                    done.append(partition)

            thread_pool.parallel_for(task, 2)
            sums[name] = sums.get(name, 0) + sum(done)

    callers = [threading.Thread(target=call, args=(name,)) for name in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sums == dict.fromkeys(range(4), 200 * 28)


@pytest.mark.slow
def test_a_forked_process_starts_its_own_workers():
    found = subprocess.run(
        [sys.executable, "-c", FORKED], text=True, capture_output=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "3"
