"""Commands as processes of their own without the seconds of their imports: forked from one process that has done them."""

import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import yaml
from support.project import PROJECT, environment

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "kedro.framework.cli", "kedro.runner", "kedro_telemetry.plugin", "hypothesis", "pandera.pandas",
        "deep_interest.settings", "deep_interest.commands.main", "deep_interest.datasets", "deep_interest.retraining.runs",
        "deep_interest.retraining.window",
    ]
)  # fmt: skip
_NUMBERS = count()


class Forked:
    """A running command.

    Args:
        arguments: ``kedro …`` or ``deep-interest …``.
        cwd: where it runs.
        env: its environment.
        largest_file: the system refuses to let it write more bytes to one file.
    """

    def __init__(
        self, arguments: list[str], *, cwd: Path, env: Mapping[str, str], largest_file: int | None = None
    ) -> None:
        self._arguments, self._output = arguments, cwd / f".output.{next(_NUMBERS)}"
        self.process = _SERVER.Process(
            target=_main, args=(arguments, str(cwd), dict(env), str(self._output), largest_file)
        )
        self.process.start()

    def kill(self) -> None:
        """SIGKILL, and its end."""
        self.process.kill()
        self.wait()

    def wait(self, timeout: float = 300) -> subprocess.CompletedProcess:
        """Its exit status, and output and errors together."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"{self._arguments}: still running after {timeout} s"
        output = self._output.read_text() if self._output.exists() else ""
        return subprocess.CompletedProcess(self._arguments, self.process.exitcode, output)


def new_project(folder: Path) -> Path:
    """A project without data and code: forked commands run this repository's code, with its compiled kernels."""
    (folder / "src").mkdir(parents=True)
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(PROJECT / name, folder / name)
    shutil.copytree(PROJECT / "conf", folder / "conf")
    return folder


def start(project: Path, *arguments: str, raw: Path | None = None) -> Forked:
    """Start ``kedro run --env=smoke`` in a project whose raw files are in ``raw``."""
    return Forked(["kedro", "run", "--env=smoke", *arguments], cwd=project, env=environment(raw))


def run(project: Path, *arguments: str, raw: Path | None = None) -> subprocess.CompletedProcess:
    """Run ``kedro run --env=smoke`` to its end."""
    return start(project, *arguments, raw=raw).wait()


def _main(
    arguments: list[str], cwd: str, env: Mapping[str, str], output: str, largest_file: int | None
) -> None:
    with open(output, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = arguments
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    if arguments[0] == "kedro":
        from kedro.framework.cli import main
        from kedro.framework.project import LOGGING

        LOGGING.configure(
            yaml.safe_load(Path("conf/logging.yml").read_text())
        )  # as its import does in the project
    else:
        from deep_interest.commands.main import run as main
    try:
        main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
