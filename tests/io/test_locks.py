"""Locks between processes, each holder a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from deep_interest.errors import InputError
from deep_interest.hooks.locks import resources_of, searches_of
from deep_interest.io.locks import LockedError, ResourceLock, lock_path
from deep_interest.pipeline_registry import register_pipelines

HOLD = """
import sys
from pathlib import Path
from deep_interest.io.locks import ResourceLock
ResourceLock(Path(sys.argv[1])).acquire("kedro run --pipelines=shop", shared=sys.argv[2] == "shared")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold(tmp_path):
    """Start processes that hold the lock of ``shop`` until their input ends."""
    started = []

    def start(mode: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(lock_path(tmp_path, "shop")), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_refused_process_learns_who_holds_the_lock(tmp_path, hold):
    holder = hold("exclusive")
    with pytest.raises(LockedError) as refused:
        ResourceLock(lock_path(tmp_path, "shop")).acquire("mine", advice="Wait.")
    message = str(refused.value)
    assert message.startswith("shop is in use by `kedro run --pipelines=shop` (process ")
    assert f"process {holder.pid} on {os.uname().nodename}, since 20" in message
    assert message.endswith("; this run has written nothing. Wait.")
    assert isinstance(refused.value, InputError)


def test_a_killed_holder_leaves_no_lock(tmp_path, hold):
    holder = hold("exclusive")
    holder.kill()
    holder.wait()
    lock = ResourceLock(lock_path(tmp_path, "shop"))
    lock.acquire("mine")
    (line,) = lock.path.read_text().splitlines()
    assert (json.loads(line)["pid"], json.loads(line)["command"]) == (os.getpid(), "mine")
    lock.release()
    assert lock.path.read_text() == ""


@pytest.mark.slow
def test_shared_holders_exclude_exclusive_ones_and_are_all_named(tmp_path, hold):
    first, second = hold("shared"), hold("shared")
    lock = ResourceLock(lock_path(tmp_path, "shop"))
    for process, named in ((first, [first, second]), (second, [second])):
        with pytest.raises(LockedError) as refused:
            lock.acquire("mine")
        message = str(refused.value)
        assert [holder.pid for holder in (first, second) if f"process {holder.pid} " in message] == [
            holder.pid for holder in named
        ]
        process.kill()
        process.wait()
    lock.acquire("mine")
    with pytest.raises(LockedError):
        ResourceLock(lock.path).acquire("other", shared=True)
    lock.release()


def test_a_lock_can_be_taken_again_after_its_release(tmp_path):
    lock = ResourceLock(lock_path(tmp_path, "shop"))
    for _ in range(2):
        lock.acquire("mine")
        lock.release()
        lock.release()


@pytest.mark.slow
def test_a_damaged_record_does_not_hide_that_the_lock_is_held(tmp_path, hold):
    hold("exclusive")
    path = lock_path(tmp_path, "shop")
    path.write_bytes(b'\xff{"pid": 1}\n[]\n')
    with pytest.raises(LockedError, match="shop is in use by another process;"):
        ResourceLock(path).acquire("mine")


def test_a_data_folder_that_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / ".locks").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"shop\.lock: the lock file cannot be written or locked \("):
        ResourceLock(lock_path(tmp_path, "shop")).acquire("mine")


WRITES, READS = False, True
DAYS = {"simulated.days": READS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("simulated", {"simulated": WRITES}),
        ("simulated.din", {"simulated": WRITES}),
        ("samples.amazon_toys", {"amazon_toys": WRITES}),
        ("report.simulated", {"simulated": WRITES}),
        ("din_table4.simulated", {"simulated": WRITES}),
        ("tuned.simulated.din", {"simulated": WRITES}),
        ("tune.simulated.din", {"simulated": WRITES, "simulated.din.tuning": WRITES}),
        ("retrain.simulated.din", DAYS),
        ("score.simulated.din", DAYS | {"simulated.din.scores": WRITES}),
        ("simulate", {"simulated": WRITES}),
        ("simulate_days", {"simulated.days": WRITES}),
        ("backtest", {"simulated.days": WRITES, "simulated.backtest": WRITES}),
    ],
)
def test_a_pipeline_locks_what_it_writes_and_shares_what_it_reads(name, resources):
    assert resources_of(register_pipelines()[name]) == resources


@pytest.mark.slow
def test_a_search_needs_its_dataset_until_it_has_its_samples():
    pipelines = register_pipelines()
    din = pipelines["tune.simulated.din"]
    assert searches_of(din) == {"simulated": {"tune.simulated.din.tune"}}
    both = din + pipelines["tune.simulated.dien"]
    assert searches_of(both) == {"simulated": {"tune.simulated.din.tune", "tune.simulated.dien.tune"}}
    assert searches_of(pipelines["simulated"]) == {}
    assert searches_of(din + pipelines["simulated.base"]) == {}  # base is trained at any time
    alone = din.only_nodes("tune.simulated.din.tune")
    assert resources_of(alone) == {"simulated": READS, "simulated.din.tuning": WRITES}
    assert searches_of(alone) == {"simulated": {"tune.simulated.din.tune"}}


@pytest.mark.slow
def test_models_of_a_dataset_can_be_trained_at_the_same_time():
    pipelines = register_pipelines()
    whole = pipelines["simulated"]
    din, base = (
        whole.filter(node_namespaces=[f"models.{name}"]) for name in ("attention.din", "pooled.base")
    )
    assert resources_of(din) == {"simulated": READS, "simulated.din.fit": WRITES}
    assert resources_of(base) == {"simulated": READS, "simulated.base.fit": WRITES}
    assert resources_of(din + pipelines["report.simulated"]) == {"simulated": WRITES}
    search = pipelines["tune.simulated.dien"].only_nodes("tune.simulated.dien.tune")
    assert searches_of(search + din) == {}  # the model needs its samples until it is trained
