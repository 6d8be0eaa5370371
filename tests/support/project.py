"""A copy of the project in a folder of its own: the same code and configuration, its own data."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd

PROJECT = Path(__file__).parents[2]


def copy_project(folder: Path) -> Path:
    """Lay out a project in ``folder``: code (with its compiled kernels) and configuration as they are, no data."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(PROJECT / name, folder / name)
    shutil.copytree(PROJECT / "conf", folder / "conf")
    shutil.copytree(PROJECT / "src", folder / "src", ignore=shutil.ignore_patterns("*.pyc", "*.egg-info"))
    return folder


def kedro(*arguments: str, env: str = "smoke") -> list[str]:
    """The command line of ``kedro run`` in an environment."""
    return [sys.executable, "-m", "kedro", "run", f"--env={env}", *arguments]


def environment(raw: Path | None = None) -> dict[str, str]:
    """The process environment of a run whose raw files lie in ``raw``."""
    own = os.environ | {"DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    own.pop("DEEP_INTEREST_RAW", None)
    return own | ({"DEEP_INTEREST_RAW": str(raw)} if raw else {})


def run(
    project: Path, *arguments: str, raw: Path | None = None, env: str = "smoke"
) -> subprocess.CompletedProcess:
    """Run ``kedro run`` to its end; output and errors together as text."""
    return subprocess.run(
        kedro(*arguments, env=env), cwd=project, env=environment(raw), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip


def results(project: Path, dataset: str) -> pd.DataFrame:
    """The dataset's table without its timings."""
    table = pd.read_csv(project / "data/smoke/08_reporting" / dataset / "results.csv")
    return table.drop(columns=["train_seconds", "samples_per_second"])
