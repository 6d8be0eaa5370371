"""Run commands as separate processes without import time: they are forked from a process that has the modules loaded."""

import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

import yaml
from support.project import PROJECT, environment

_SERVER = multiprocessing.get_context("forkserver")
_COUNTER = count()


class Forked:
    """Running command.

    Args:
        arguments: command line, ``kedro …`` or ``deep-interest …``.
        cwd: working directory.
        env: environment variables.
        max_file_size: limit of the size of a written file, in bytes.
    """

    def __init__(
        self, arguments: list[str], *, cwd: Path, env: Mapping[str, str], max_file_size: int | None = None
    ) -> None:
        self._arguments, self._output = arguments, cwd / f".output.{next(_COUNTER)}"
        self.process = _SERVER.Process(
            target=_main, args=(arguments, str(cwd), dict(env), str(self._output), max_file_size)
        )
        _start_server()
        self.process.start()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.process.kill()
        self.wait()

    def wait(self, timeout: float = 300) -> subprocess.CompletedProcess:
        """Wait for the end; stdout of the result contains output and errors."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"{self._arguments}: still running after {timeout} s"
        output = self._output.read_text() if self._output.exists() else ""
        return subprocess.CompletedProcess(self._arguments, self.process.exitcode, output)


def _start_server() -> None:
    """Start the process to fork from, if it is not running, with the tests' folder on its path.

    A search in the process of the tests can have started it, with fewer modules; commands are slower then.
    """
    _SERVER.set_forkserver_preload(["support.preloaded"])
    with patch.dict(os.environ, PYTHONPATH=import_path()):
        forkserver.ensure_running()


def import_path() -> str:
    """Return ``PYTHONPATH`` with the tests' folder."""
    return os.pathsep.join(filter(None, [str(PROJECT / "tests"), os.environ.get("PYTHONPATH")]))


def start(project: Path, *arguments: str, raw: Path | None = None) -> Forked:
    """Start ``kedro run --env=smoke`` in a project whose raw files are in ``raw``."""
    return Forked(["kedro", "run", "--env=smoke", *arguments], cwd=project, env=environment(raw))


def run(project: Path, *arguments: str, raw: Path | None = None) -> subprocess.CompletedProcess:
    """Run ``kedro run --env=smoke`` to its end."""
    return start(project, *arguments, raw=raw).wait()


def _main(
    arguments: list[str], cwd: str, env: Mapping[str, str], output: str, max_file_size: int | None
) -> None:
    with open(output, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = arguments
    if max_file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_size, max_file_size))
    if arguments[0] == "kedro":
        from kedro.framework.cli import main
        from kedro.framework.project import LOGGING

        LOGGING.configure(
            yaml.safe_load(Path("conf/logging.yml").read_text())
        )  # Kedro does this on import in a project
    else:
        from deep_interest.commands.main import run as main
    try:
        main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
