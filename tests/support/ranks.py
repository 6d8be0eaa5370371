"""Start ``torchrun`` in tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).parents[2]
SCRIPT = PROJECT / "tests/support/rank_training.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def variables(**more: str) -> dict[str, str]:
    """Return the environment of a process that imports the tests' support."""
    path = os.pathsep.join([str(PROJECT / "src"), str(PROJECT / "tests")])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DO_NOT_TRACK": "1"} | more


def command(ranks: int, *options: str) -> list[str]:
    """Return the beginning of a command on this machine, with a rendezvous of its own."""
    return [*TORCHRUN, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--nnodes=1", f"--nproc-per-node={ranks}", *options]  # fmt: skip


def train(
    folder: Path, settings: dict, *, ranks: int | None, restarts: int = 0
) -> subprocess.CompletedProcess:
    """Run ``rank_training.py`` with several ranks, or in one process if ``ranks`` is None; stdout has all output."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = [sys.executable] if ranks is None else command(ranks, f"--max-restarts={restarts}")
    return subprocess.run(
        [*begin, str(SCRIPT), str(folder), json.dumps(settings)], env=variables(), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
    )  # fmt: skip


def trained(
    folder: Path, settings: dict, *, ranks: int | None, restarts: int = 0
) -> dict[str, dict[str, np.ndarray]]:
    """Train, and return what each model has written."""
    process = train(folder, settings, ranks=ranks, restarts=restarts)
    assert process.returncode == 0, process.stdout
    return {model: written(folder, model) for model in settings["models"]}


def written(folder: Path, model: str) -> dict[str, np.ndarray]:
    """Return losses, curves, parameters and predictions of a model."""
    with np.load(folder / f"{model}.npz") as file:
        return dict(file)
