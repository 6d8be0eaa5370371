"""A Spark cluster of two machines: one master, a worker on each, and a worker that is killed in the middle of a run."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import yaml
from support.machines import ADDRESSES, connected_machines, on_machine
from support.project import copy_project, environment, kedro, run

from deep_interest.datasets import SamplesFolder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]
MASTER = f"spark://{ADDRESSES[0]}:7077"
SIZES = "simulation.users=300,simulation.items=200,simulation.categories=20,simulation.themes=4,simulation.shops=20"
SAMPLES = "05_model_input/simulated/samples.parquet"
ORDER = ["user", "time", "history_end", "label", "item"]


@pytest.fixture
def machines():
    yield from connected_machines()


@pytest.fixture
def cluster(machines, tmp_path):
    """Start the master on the first machine and a worker with one core on each; yield the worker processes."""
    spec = find_spec("pyspark")
    assert spec is not None
    home = Path(str(spec.origin)).parent
    processes = []

    def start(machine, role, *arguments):
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{role}", *arguments]
        log = (tmp_path / f"{role}-{len(processes)}.log").open("w")
        variables = environment() | {
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        process = subprocess.Popen(
            on_machine(machine, *command),
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        processes.append(process)
        return process

    start(machines[0], "master.Master", "--host", ADDRESSES[0], "--port", "7077", "--webui-port", "8180")
    workers = [
        start(
            machine, "worker.Worker", MASTER, "--host", address, "--cores", "1", "--memory", "1g", "--webui-port", "8181",
            "--work-dir", str(tmp_path / f"worker-{address}"),
        )
        for machine, address in zip(machines, ADDRESSES, strict=True)
    ]  # fmt: skip
    yield workers
    for process in processes:
        kill(process)


def kill(process):
    """Kill a worker with all executors that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def project_on(master, folder):
    """Copy the project with the configuration of a cluster."""
    project = copy_project(folder)
    file = project / "conf/spark/catalog.yml"
    catalog = yaml.safe_load(file.read_text())
    settings = {
        "spark.driver.host": ADDRESSES[0], "spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": 4,

    }  # fmt: skip
    for entry in catalog.values():
        if entry.get("connection"):
            entry["connection"] = {"backend": "pyspark", "master": master, "settings": settings}
            entry["rows_per_partition"] = 2_000
    file.write_text(yaml.safe_dump(catalog))
    return project


def executors(folder):
    """Return the executors that a worker has started."""
    return list((folder / f"worker-{ADDRESSES[1]}").glob("app-*/*/stderr"))


def stored_tables(project):
    """Return the folders of the tables of the data path that Spark has written completely, while others come and go."""
    return [folder for folder, _, files in os.walk(project / "data/spark") if "_SUCCESS" in files]


def run_on_cluster(project, machine):
    command = on_machine(machine, *kedro("--pipelines=samples.simulated", f"--params={SIZES}", env="spark"))
    log = (project / "run.log").open("w")
    return subprocess.Popen(
        command, cwd=project, env=environment() | {"PYSPARK_PYTHON": sys.executable}, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.mark.parametrize("killed", [False, True])
def test_a_cluster_makes_the_samples_of_one_process_also_if_a_worker_is_killed(
    tmp_path, machines, cluster, killed
):
    project = project_on(MASTER, tmp_path / "cluster")
    process = run_on_cluster(project, machines[0])
    if killed:
        deadline = time.monotonic() + 180
        while not (stored_tables(project) and executors(tmp_path)):
            assert process.poll() is None, (project / "run.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kill(cluster[1])
        assert process.poll() is None  # in the middle of the run
    assert process.wait(300) == 0, (project / "run.log").read_text()
    assert executors(tmp_path), "the second machine has worked"
    made = SamplesFolder(filepath=str(project / "data/spark" / SAMPLES)).load()
    assert (
        run(
            project,
            "--pipelines=samples.simulated",
            f"--params={SIZES},datasets.simulated.protocol.sampling=hashed",
        ).returncode
        == 0
    )
    expected = pd.read_parquet(project / "data/smoke" / SAMPLES)
    expected = expected.sort_values(ORDER, ascending=[True, True, True, False, True], ignore_index=True)
    pd.testing.assert_frame_equal(made, expected)
