"""A finished project of the smoke environment, which the audits damage: simulated log, two models, a search, a registry."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from kedro.framework.context import KedroContext
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project

ROOT = Path(__file__).parents[2]
DATA = "data/smoke"
MODEL = "base"
PARAMETERS = f"datasets: {{simulated: {{rows: [popularity, {MODEL}]}}}}\n"
PIPELINES = ["simulate_days", "simulated", f"tune.simulated.{MODEL}", f"retrain.simulated.{MODEL}"]


def finished_project(folder: Path) -> Path:
    """Lay out a project with the code of this tree, and run its pipelines; a finished one is used unchanged.

    Raises:
        SystemExit: a pipeline failed.
    """
    if (folder / "finished").exists():
        return folder
    (folder / "src").mkdir(parents=True)  # empty: the code is that of this tree
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "conf", folder / "conf")
    (folder / "conf/smoke/parameters_audit.yml").write_text(PARAMETERS)
    environment = os.environ | {"DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    for pipeline in PIPELINES:
        command = [sys.executable, "-m", "kedro", "run", "--env=smoke", f"--pipelines={pipeline}"]
        done = subprocess.run(
            [*command, "--params=backtest.log.corrupted_day=null"],
            cwd=folder, env=environment, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode not in (0, 11):  # 11: the gate refused the model, which is a version all the same
            sys.exit(f"{pipeline}: exit status {done.returncode}\n{done.stdout}")
    (folder / "finished").touch()
    return folder


@contextmanager
def context_of(project: Path) -> Iterator[KedroContext]:
    """Work in the project's folder with its context."""
    before = Path.cwd()
    os.chdir(project)
    bootstrap_project(project)
    try:
        with KedroSession.create(project, env="smoke", save_on_close=False) as session:
            yield session.load_context()
    finally:
        os.chdir(before)


def run_pipeline(project: Path, pipeline: str) -> None:
    """Run a pipeline of the project in this process, hooks included; its errors are raised."""
    with KedroSession.create(project, env="smoke", save_on_close=False) as session:
        session.run(pipeline_names=[pipeline])


def results(project: Path) -> pd.DataFrame:
    """The dataset's table without its timings."""
    table = pd.read_csv(project / DATA / "08_reporting/simulated/results.csv")
    return table.drop(columns=["train_seconds", "samples_per_second"])


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """The warnings that the package logs in the block, which are not printed."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("deep_interest")
    before, propagate = logger.handlers[:], logger.propagate
    logger.handlers[:], logger.propagate = [Collect(logging.WARNING)], False
    try:
        yield lines
    finally:
        logger.handlers[:], logger.propagate = before, propagate
