"""Concurrent runs, as separate processes: one is suspended while the others run."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pandas as pd
import pytest
import yaml
from support.days import FEATURES, day_tables, write_tables
from support.forked import run, start
from support.project import copy_project, environment, results

from deep_interest.io.locks import lock_path

MODEL = "--pipelines=simulated.popularity"
OTHER_LOG = "--params=simulation.seed=11"
FILES = ("behaviors", "items", "users", "impressions")
BLOCK = {
    "title": "Shop", "protocol": {"name": "by_day"}, "features": FEATURES,
    "source": {name: {"files": f"{name}.parquet"} for name in FILES},
}  # fmt: skip


def wait_for(condition, run):
    deadline = time.monotonic() + 300
    while not condition():
        assert run.process.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)


def is_held(project, resource):
    path = lock_path(project / "data/smoke", resource)
    return path.exists() and path.read_text() != ""


@contextmanager
def suspended(project, *arguments, until=None):
    """Suspend a run once it has its lock, or once ``until`` is true, and resume it at the end of the block."""
    first = start(project, *arguments)
    wait_for(until or (lambda: is_held(project, "simulated")), first)
    os.kill(first.process.pid, signal.SIGSTOP)
    try:
        yield first
    finally:
        os.kill(first.process.pid, signal.SIGCONT)


def contents(project):
    """Return the content of every file in the project's data, except locks."""
    files = sorted((project / "data").rglob("*"))
    return {path: path.read_bytes() for path in files if path.is_file() and path.parent.name != ".locks"}


@pytest.fixture(scope="module")
def expected_results(tmp_path_factory):
    """Results of a run without concurrent runs."""
    project = copy_project(tmp_path_factory.mktemp("single") / "project")
    done = run(project, MODEL)
    assert done.returncode == 0, done.stdout
    return results(project, "simulated/popularity")


def test_a_second_run_of_a_dataset_is_rejected(tmp_path, expected_results):
    project = copy_project(tmp_path / "project")
    with suspended(project, MODEL) as first:
        before = contents(project)
        rejected = run(project, MODEL, OTHER_LOG)
        assert rejected.returncode == 1
        (line,) = [line for line in rejected.stdout.splitlines() if "error" in line.lower()]
        assert line.startswith(
            "error: simulated is in use by `kedro run --env=smoke --pipelines=simulated.popularity`"
        )
        assert f"(process {first.process.pid} on " in line
        assert "Wait until it ends, or run in another environment" in line
        assert "Traceback" not in rejected.stdout
        assert contents(project) == before
    done = first.wait()
    assert done.returncode == 0, done.stdout
    pd.testing.assert_frame_equal(
        results(project, "simulated/popularity"), expected_results, check_exact=True
    )


def test_the_next_run_after_a_killed_one_needs_no_clean_up(tmp_path, expected_results):
    project = copy_project(tmp_path / "project")
    killed = start(project, MODEL, OTHER_LOG)
    wait_for(lambda: is_held(project, "simulated"), killed)
    killed.kill()
    assert is_held(project, "simulated")  # the record in the file remains, the lock does not
    done = run(project, MODEL)
    assert done.returncode == 0, done.stdout
    pd.testing.assert_frame_equal(
        results(project, "simulated/popularity"), expected_results, check_exact=True
    )


def test_two_datasets_can_run_at_the_same_time(tmp_path):
    project = copy_project(tmp_path / "project")
    (project / "conf/smoke/parameters_shop.yml").write_text(yaml.safe_dump({"datasets": {"shop": BLOCK}}))
    write_tables(tmp_path / "raw/shop", day_tables(0))
    with suspended(project, "--pipelines=samples.simulated") as first:
        other = run(project, "--pipelines=ingest.shop", raw=tmp_path / "raw")
        assert other.returncode == 0, other.stdout
    assert first.wait().returncode == 0


@pytest.mark.nightly
def test_a_search_releases_its_dataset_once_it_has_its_samples(tmp_path):
    project = copy_project(tmp_path / "project")
    search = ["--pipelines=tune.simulated.lr", "--params=tuning.n_trials=1"]
    study = project / "data/smoke/06_models/simulated/lr/tuning/study.db"
    with suspended(project, *search, until=study.exists) as first:
        rejected = run(project, *search)
        assert rejected.returncode == 1
        assert "error: simulated.lr.tuning is in use by `kedro run" in rejected.stdout
        assert "higher tuning.workers" in rejected.stdout
        other = run(project, MODEL, OTHER_LOG)
        assert other.returncode == 0, other.stdout
    done = first.wait()
    assert done.returncode == 0, done.stdout
    settings = ["--pipelines=simulated.lr", "--params=training.tuned=true,training.seeds=[1]"]
    stale = run(project, *settings[:1], settings[1] + ",simulation.seed=11")
    assert stale.returncode == 0, stale.stdout
    assert "values for simulated.lr were tuned on other samples" in stale.stdout
    current = run(project, *settings)
    assert current.returncode == 0, current.stdout
    assert "tuned on other samples" not in current.stdout


SESSIONS = """
import sys
from pathlib import Path
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from deep_interest.io.locks import LockedError, ResourceLock, lock_path

project = Path.cwd()
bootstrap_project(project)

def run(name):
    with KedroSession.create(project, env="smoke") as session:
        session.run(pipeline_names=[name])

def is_free():
    lock = ResourceLock(lock_path(project / "data/smoke", "simulated"))
    try:
        lock.acquire("another process")
    except LockedError:
        return False
    lock.release()
    return True

run("simulate")
assert is_free(), "after a run"
try:
    run("report.simulated")  # no samples exist yet
except Exception as error:
    assert not isinstance(error, LockedError), error
else:
    raise AssertionError("the report needs samples")
assert is_free(), "after an error"
other = ResourceLock(lock_path(project / "data/smoke", "simulated"))
other.acquire("another process")
try:
    run("simulate")
except LockedError:
    pass
else:
    raise AssertionError("the lock was ignored")
other.release()
run("simulate")
print("all sessions ran")
"""


@pytest.mark.nightly
def test_sessions_release_their_locks_after_a_run_and_an_error(tmp_path):
    project = copy_project(tmp_path / "project")
    done = subprocess.run(
        [sys.executable, "-c", SESSIONS], cwd=project, env=environment(), text=True, check=False, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert "all sessions ran" in done.stdout, done.stdout
