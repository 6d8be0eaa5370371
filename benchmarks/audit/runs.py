"""Real smoke runs in projects of their own, for the audits of kills and of parallel runs."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 1800
_SPEED = "samples_per_second"


def new_project(folder: Path) -> Path:
    """Create a project with this repository's configuration and code, and no data."""
    (folder / "src").mkdir(parents=True)
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(REPOSITORY / name, folder / name)
    shutil.copytree(REPOSITORY / "conf", folder / "conf")
    return folder


@dataclass
class Run:
    """A ``kedro run`` in a process of its own.

    Attributes:
        project: its folder.
        arguments: further arguments of the command.
        env: configuration environment.
        ranks: number of ranks that ``torchrun`` starts and, when one of them is killed, starts again; 0 for a single process.
        begin: when it started, on the monotonic clock.
    """

    project: Path
    arguments: tuple[str, ...]
    env: str = "smoke"
    ranks: int = 0
    begin: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        environment = os.environ | {
            "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY / "src"),
        }  # fmt: skip
        environment.pop("DEEP_INTEREST_RAW", None)
        launcher = [
            "-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--nnodes=1",
            f"--nproc-per-node={self.ranks}", "--max-restarts=3",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, *(launcher if self.ranks else []), "-m", "kedro", "run", f"--env={self.env}", *self.arguments],
            cwd=self.project, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def wait(self) -> tuple[int, str, float]:
        """Its exit status, its output, and its seconds."""
        output, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, output, time.monotonic() - self.begin

    def kill_at(self, seconds: float) -> bool:
        """Send SIGKILL when the run is ``seconds`` old; False if it had ended by then."""
        try:
            self.process.wait(timeout=max(0.0, self.begin + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.communicate()
        return self.process.returncode < 0

    def kill_rank_at(self, rank: int, seconds: float) -> bool:
        """Send SIGKILL to a rank when the run is ``seconds`` old, or as soon as the rank exists; False if the run had ended by then."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=max(0.0, self.begin + seconds - time.monotonic()))
        while self.process.poll() is None:
            for process in _children(self.process.pid):
                if f"RANK={rank}" in _environment(process):
                    os.kill(process, signal.SIGKILL)
                    return True
            time.sleep(0.05)
        return False


def _children(process: int) -> list[int]:
    """The children of a process, those of all its threads; none if it has ended."""
    try:
        threads = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for children in threads for child in children.split()]


def _environment(process: int) -> list[str]:
    """The environment of a process; empty if it has ended, or has not started its program yet."""
    try:
        return Path(f"/proc/{process}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def reported_table(output: str) -> list[str]:
    """The table that a run's log shows, by lines, without the training speed, its last column."""
    found = re.search(
        r"Test set, means over seeds:\n(.*?)(?=^\d\d:\d\d:\d\d|\Z)", output, re.DOTALL | re.MULTILINE
    )
    lines = found[1].splitlines() if found else []
    return [line[: len(lines[0]) - len(_SPEED)].rstrip() for line in lines]


def left_over(project: Path) -> list[str]:
    """Unfinished files and folders in a project's data."""
    return sorted(str(path.relative_to(project)) for path in (project / "data").rglob("*.part"))
