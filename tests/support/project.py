"""Copies of the project: the same code and configuration with separate data."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd

PROJECT = Path(__file__).parents[2]


def copy_project(folder: Path, *, code: bool = False) -> Path:
    """Copy the project's configuration to ``folder``; its commands run this repository's code, or a copy of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(PROJECT / name, folder / name)
    shutil.copytree(PROJECT / "conf", folder / "conf")
    if code:
        shutil.copytree(PROJECT / "src", folder / "src", ignore=shutil.ignore_patterns("*.pyc", "*.egg-info"))
    else:
        (folder / "src").mkdir()
    return folder


def kedro(*arguments: str, env: str = "smoke") -> list[str]:
    """Return the command line of ``kedro run`` in an environment."""
    return [sys.executable, "-m", "kedro", "run", f"--env={env}", *arguments]


def environment(raw: Path | None = None) -> dict[str, str]:
    """Return the process environment of a run with raw files in ``raw``."""
    variables = os.environ | {"DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    variables.pop("DEEP_INTEREST_RAW", None)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # a second for each process
    return variables | ({"DEEP_INTEREST_RAW": str(raw)} if raw else {})


def run(
    project: Path, *arguments: str, raw: Path | None = None, env: str = "smoke"
) -> subprocess.CompletedProcess:
    """Run ``kedro run``; stdout contains output and errors."""
    return subprocess.run(
        kedro(*arguments, env=env), cwd=project, env=environment(raw), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip


def results(project: Path, dataset: str) -> pd.DataFrame:
    """Return the results table of a dataset without timings."""
    table = pd.read_csv(project / "data/smoke/08_reporting" / dataset / "results.csv")
    return table.drop(columns=["train_seconds", "samples_per_second"])
