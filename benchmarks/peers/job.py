"""What a peer's runner is asked to do, and the loop that every one of them shares: epochs, validation GAUC, patience."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "src"))

from deep_interest.evaluation.metrics import gauc

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """One fit.

    Attributes:
        data: folder with ``train.npz``, ``validation.npz``, ``test.npz`` and ``sizes.json``.
        out: where the result goes.
        model: ``din`` or ``dien``.
        learning_rate, l2: the library's own options of these names.
        dim: embedding width of item and of category.
        batch_size, epochs, patience, seed, threads: as they say.
    """

    data: str
    out: str
    model: str
    learning_rate: float
    l2: float
    dim: int
    batch_size: int
    epochs: int
    patience: int
    seed: int
    threads: int


def read_job() -> Job:
    """The job named on the command line; sets seeds and threads."""
    import torch

    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    torch.manual_seed(job.seed)
    np.random.seed(job.seed)
    torch.set_num_threads(job.threads)
    return job


def split(job: Job, name: str) -> Arrays:
    """The arrays of a split: ``(n,)`` and, of the histories, ``(n, T)`` with 0 after their end."""
    with np.load(Path(job.data) / f"{name}.npz") as arrays:
        return dict(arrays)


def sizes(job: Job) -> dict[str, int]:
    """Rows of the embedding tables."""
    return json.loads((Path(job.data) / "sizes.json").read_text())


def fit(job: Job, *, epoch: Callable[[], None], score: Callable[[Arrays], np.ndarray]) -> None:
    """Train until validation GAUC has not risen for ``patience`` epochs; keep the best epoch's test scores.

    The test set is scored at each new best epoch, as a stand-in for restoring that epoch's parameters.
    """
    validation, test = split(job, "validation"), split(job, "test")
    best, bad, scores, history, started = -1.0, 0, None, [], time.time()
    for _ in range(job.epochs):
        epoch()
        value = gauc(validation["user"], validation["label"], score(validation)).value
        history.append(value)
        if value > best:
            best, bad, scores = value, 0, score(test)
        else:
            bad += 1
        print(json.dumps({"epoch": len(history), "validation_gauc": value}), flush=True)
        if bad >= job.patience:
            break
    partial = Path(job.out).with_suffix(".part.npz")
    np.savez(partial, scores=scores, history=history, best=best, seconds=time.time() - started)
    partial.rename(job.out)
