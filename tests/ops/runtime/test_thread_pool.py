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

thread_pool.parallel_for(lambda number: None, 2)
if os.fork() == 0:
    done = []
    thread_pool.parallel_for(done.append, 2)
    os._exit(len(done))
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_task_is_done_here_and_in_every_helper_time_after_time():
    seen = {}
    for helpers in (0, 1, 3, 1):
        for _ in range(50):
            threads = []
            thread_pool.parallel_for(
                lambda number, threads=threads: threads.append((number, threading.get_ident())), helpers
            )
            assert [number for number, _ in sorted(threads)] == list(range(helpers + 1))
            assert dict(threads)[0] == threading.get_ident()
            for number, thread in threads:
                assert seen.setdefault(number, thread) == thread
    assert len(set(seen.values())) == 4


def test_a_helper_that_has_fallen_asleep_is_woken():
    thread_pool.parallel_for(lambda number: None, 1)
    (helper, *_) = thread_pool._workers
    deadline = time.monotonic() + 30
    while not helper._asleep and time.monotonic() < deadline:
        time.sleep(0.01)
    assert helper._asleep
    done = []
    thread_pool.parallel_for(lambda number: done.append(1), 1)
    assert done == [1, 1]


@pytest.mark.parametrize("where", ["here", "helper"])
def test_what_a_task_raises_is_raised_when_all_have_finished(where):
    ours, finished = threading.get_ident(), []

    def task(number):
        if (threading.get_ident() == ours) == (where == "here"):
            raise ValueError("not this one")
        time.sleep(0.05)
        finished.append(1)

    with pytest.raises(ValueError, match="not this one"):
        thread_pool.parallel_for(task, 1)
    assert finished == [1]
    thread_pool.parallel_for(lambda number: finished.append(2), 1)
    assert finished == [1, 2, 2]


def test_a_task_that_nobody_has_waited_for_does_not_cost_the_next_one():
    done, helper = [], thread_pool.Worker(1)
    helper.begin(lambda number: time.sleep(0.1) or done.append("first"))
    helper.begin(lambda number: done.append("second"))
    helper.finish()
    assert done == ["first", "second"]


def test_two_that_ask_at_once_both_get_all_of_their_parts_done():
    sums = {}

    def ask(name):
        for _ in range(200):
            left, done = count(), []

            def task(number, left=left, done=done):
                while (part := next(left)) < 8:
                    done.append(part)

            thread_pool.parallel_for(task, 2)
            sums[name] = sums.get(name, 0) + sum(done)

    askers = [threading.Thread(target=ask, args=(name,)) for name in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert sums == dict.fromkeys(range(4), 200 * 28)


def test_a_forked_process_has_helpers_of_its_own():
    found = subprocess.run(
        [sys.executable, "-c", FORKED], text=True, capture_output=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "3"
