"""What we are measured against: public libraries, each from its package in its own environment, and plain PyTorch in ours."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
WORK = PROJECT / "build/peers"
TORCH = "torch==2.13.0"  # the same for all, and ours


@dataclass(frozen=True)
class Peer:
    """A library, or models in plain PyTorch.

    Attributes:
        name: as its authors write it.
        packages: what its environment holds besides torch; empty for plain PyTorch, which runs in our environment.
        runner: its script in ``benchmarks/peers``.
        options: more arguments of the runner.
    """

    name: str
    packages: tuple[str, ...]
    runner: str
    options: tuple[str, ...] = ()


PEERS = {
    "plain": Peer("plain PyTorch", (), "plain_runner.py"),
    "plain_compiled": Peer("plain PyTorch, torch.compile", (), "plain_runner.py", ("--compile",)),
    "deepctr_torch": Peer(
        "DeepCTR-Torch",
        ("deepctr-torch==0.3.0", "requests", "starlette", "uvicorn[standard]", "orjson"),
        "deepctr_torch_runner.py",
    ),
    "torch_rechub": Peer("torch-rechub", ("torch-rechub==0.9.0",), "torch_rechub_runner.py"),
    "fuxictr": Peer("FuxiCTR (LongCTR)", ("fuxictr==2.3.10",), "fuxictr_runner.py"),
    "recbole": Peer("RecBole", ("recbole==1.2.1", "numpy==1.26.4", "pandas==2.2.3"), "recbole_runner.py"),
}


def install(names: list[str], work: Path = WORK) -> None:
    """Make the environments of some peers; needs a network."""
    work.mkdir(parents=True, exist_ok=True)
    constraints = work / "constraints.txt"
    constraints.write_text(TORCH + "\n")
    for name in (name for name in names if PEERS[name].packages):
        folder = work / "environments" / name
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for packages in (("torch",), (*PEERS[name].packages, "scikit-learn")):
            subprocess.run(
                [folder / "bin/pip", "install", "--quiet", "--constraint", constraints, *packages], check=True
            )


def environment() -> dict[str, str]:
    """Environment variables of a peer's process: ours without the OpenMP setting of `process.prepare_process`, which libraries
    decide for themselves."""
    return {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}


def command(name: str, job: Path, work: Path = WORK) -> list[str]:
    """The command line of a peer's runner for a job."""
    peer = PEERS[name]
    python = work / "environments" / name / "bin/python" if peer.packages else Path(sys.executable)
    if not python.exists():
        raise SystemExit(f"{python} is missing; install the peers' environments with --install")
    return [str(python), str(PROJECT / "benchmarks/peers" / peer.runner), str(job), *peer.options]
