"""Runs at the same time, in real processes: one is stopped in the middle while the others run."""

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
from support.forked import new_project, run, start
from support.project import environment, results

from deep_interest.io.locks import lock_path

ROW = "--pipelines=simulated.popularity"
OTHER_LOG = "--params=simulation.seed=11"
FILES = ("behaviors", "items", "users", "impressions")
SHOP = {
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
def stopped_in_the_middle(project, *arguments, until=None):
    """A run that is stopped when it has its lock, or when ``until`` holds, and goes on at the end of the block."""
    first = start(project, *arguments)
    wait_for(until or (lambda: is_held(project, "simulated")), first)
    os.kill(first.process.pid, signal.SIGSTOP)
    try:
        yield first
    finally:
        os.kill(first.process.pid, signal.SIGCONT)


def contents(project):
    """Every file of the project's data by its content, locks aside."""
    files = sorted((project / "data").rglob("*"))
    return {path: path.read_bytes() for path in files if path.is_file() and path.parent.name != ".locks"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The table of a run that nothing disturbs."""
    project = new_project(tmp_path_factory.mktemp("alone") / "project")
    done = run(project, ROW)
    assert done.returncode == 0, done.stdout
    return results(project, "simulated/popularity")


def test_the_second_run_of_a_dataset_is_refused_and_the_first_ones_table_is_right(tmp_path, alone):
    project = new_project(tmp_path / "project")
    with stopped_in_the_middle(project, ROW) as first:
        before = contents(project)
        refused = run(project, ROW, OTHER_LOG)
        assert refused.returncode == 1
        (line,) = [line for line in refused.stdout.splitlines() if "error" in line.lower()]
        assert line.startswith(
            "error: simulated is in use by `kedro run --env=smoke --pipelines=simulated.popularity`"
        )
        assert f"(process {first.process.pid} on " in line
        assert "Wait until it ends, or run in another environment" in line
        assert "Traceback" not in refused.stdout
        assert contents(project) == before
    done = first.wait()
    assert done.returncode == 0, done.stdout
    pd.testing.assert_frame_equal(results(project, "simulated/popularity"), alone, check_exact=True)


def test_after_a_killed_run_the_next_one_needs_nobodys_help(tmp_path, alone):
    project = new_project(tmp_path / "project")
    killed = start(project, ROW, OTHER_LOG)
    wait_for(lambda: is_held(project, "simulated"), killed)
    killed.kill()
    assert is_held(project, "simulated")  # its record, not its lock
    done = run(project, ROW)
    assert done.returncode == 0, done.stdout
    pd.testing.assert_frame_equal(results(project, "simulated/popularity"), alone, check_exact=True)


def test_two_datasets_run_at_the_same_time(tmp_path):
    project = new_project(tmp_path / "project")
    (project / "conf/smoke/parameters_shop.yml").write_text(yaml.safe_dump({"datasets": {"shop": SHOP}}))
    write_tables(tmp_path / "raw/shop", day_tables(0))
    with stopped_in_the_middle(project, "--pipelines=samples.simulated") as first:
        other = run(project, "--pipelines=ingest.shop", raw=tmp_path / "raw")
        assert other.returncode == 0, other.stdout
    assert first.wait().returncode == 0


def test_a_search_leaves_its_dataset_to_others_once_it_has_its_samples(tmp_path):
    project = new_project(tmp_path / "project")
    search = ["--pipelines=tune.simulated.lr", "--params=tuning.n_trials=1"]
    study = project / "data/smoke/06_models/simulated/lr/tuning/study.db"
    with stopped_in_the_middle(project, *search, until=study.exists) as first:
        refused = run(project, *search)
        assert refused.returncode == 1
        assert "error: simulated.lr.tuning is in use by `kedro run" in refused.stdout
        assert "raise tuning.workers there" in refused.stdout
        other = run(project, ROW, OTHER_LOG)
        assert other.returncode == 0, other.stdout
    done = first.wait()
    assert done.returncode == 0, done.stdout
    settings = ["--pipelines=simulated.lr", "--params=training.tuned=true,training.seeds=[1]"]
    warned = run(project, *settings[:1], settings[1] + ",simulation.seed=11")
    assert warned.returncode == 0, warned.stdout
    assert "values for simulated.lr were found on other samples" in warned.stdout
    fits = run(project, *settings)
    assert fits.returncode == 0, fits.stdout
    assert "found on other samples" not in fits.stdout


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
    run("report.simulated")  # there are no samples yet
except Exception as error:
    assert not isinstance(error, LockedError), error
else:
    raise AssertionError("a report without samples")
assert is_free(), "after an error"
other = ResourceLock(lock_path(project / "data/smoke", "simulated"))
other.acquire("another process")
try:
    run("simulate")
except LockedError:
    pass
else:
    raise AssertionError("not refused")
other.release()
run("simulate")
print("all sessions ran")
"""


def test_a_notebooks_sessions_release_their_locks_after_a_run_and_after_an_error(tmp_path):
    project = new_project(tmp_path / "project")
    done = subprocess.run(
        [sys.executable, "-c", SESSIONS], cwd=project, env=environment(), text=True, check=False, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert "all sessions ran" in done.stdout, done.stdout
