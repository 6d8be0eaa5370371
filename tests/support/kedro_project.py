"""A project of its own configuration and data in this process: the code is the one under test."""

import shutil
from pathlib import Path

from kedro.framework.startup import bootstrap_project

PROJECT = Path(__file__).parents[2]


def make_project(folder: Path) -> Path:
    """Make a project whose configuration is a copy and whose code is that of the repository, and open it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pyproject.toml", ".telemetry"):
        shutil.copy(PROJECT / name, folder / name)
    shutil.copytree(PROJECT / "conf", folder / "conf")
    (folder / "src").mkdir()
    bootstrap_project(folder)
    return folder
