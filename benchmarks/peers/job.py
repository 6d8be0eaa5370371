"""Jobs for the runner of another library: fit a model by validation GAUC, or measure the time of its epochs."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "src"))

ANSWER = "seconds: "  # libraries print other lines
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """One order.

    Attributes:
        task: ``fit`` writes a result, ``speed`` answers on standard output.
        data: folder with ``train.npz``, for a fit ``validation.npz`` and ``test.npz``, and ``sizes.json``.
        model: name of a model that the library has, such as ``din``.
        dim: embedding width of item and of category.
        batch_size, seed, threads: as they say.
        device: ``cpu``, or for speed ``cuda``, if the runner can.
        auxiliary: DIEN's auxiliary loss, where the library has one.
        learning_rate, l2, dropout: the library's own options of these names.
        hidden: widths of the MLP.
        epochs, patience: of a fit.
        out: where a fit's result goes.
    """

    task: Literal["fit", "speed"]
    data: str
    model: str
    dim: int
    batch_size: int
    seed: int
    threads: int
    device: str = "cpu"
    auxiliary: bool = True
    learning_rate: float = 0.001
    l2: float = 0.0
    dropout: float = 0.0
    hidden: tuple[int, ...] = (200, 80)
    epochs: int = 1
    patience: int = 1
    out: str = ""


@dataclass(frozen=True)
class Trainer:
    """A library's model with its own training loop.

    Attributes:
        epoch: trains once over the samples it was built with.
        score: predicted CTRs ``(n,)`` of other samples; not needed for speed.
    """

    epoch: Callable[[], object]
    score: Callable[[Arrays], np.ndarray] | None = None


Build = Callable[[Job, Arrays, dict[str, int]], Trainer]
"""Builds a trainer of a job, the training samples and the rows of the embedding tables."""


def main(build: Build) -> None:
    """Do the job named on the command line."""
    import torch

    job = Job(**json.loads(Path(sys.argv[1]).read_text()))
    torch.manual_seed(job.seed)
    np.random.seed(job.seed)
    torch.set_num_threads(job.threads)
    sizes = json.loads((Path(job.data) / "sizes.json").read_text())
    (serve if job.task == "speed" else fit)(job, build, sizes)


def split(job: Job, name: str) -> Arrays:
    """The arrays of a split, as `padded.padded` makes them."""
    with np.load(Path(job.data) / f"{name}.npz") as arrays:
        return dict(arrays)


def serve(job: Job, build: Build, sizes: dict[str, int]) -> None:
    """For every number of samples read, train an epoch over so many and answer with its seconds."""
    import torch

    answer, sys.stdout = sys.stdout, sys.stderr  # libraries print
    arrays, trainers = split(job, "train"), {}
    for line in sys.stdin:
        samples = int(line)
        if samples not in trainers:
            trainers = {samples: build(job, {name: a[:samples] for name, a in arrays.items()}, sizes)}
        start = time.perf_counter()
        trainers[samples].epoch()
        if job.device != "cpu":
            torch.cuda.synchronize(job.device)
        print(f"{ANSWER}{time.perf_counter() - start}", file=answer, flush=True)


def fit(job: Job, build: Build, sizes: dict[str, int]) -> None:
    """Train until validation GAUC has not risen for ``patience`` epochs; keep the best epoch's test scores.

    The test set is scored at each new best epoch, instead of restoring the parameters of that epoch.
    """
    from deep_interest.evaluation.metrics import gauc

    trainer = build(job, split(job, "train"), sizes)
    assert trainer.score is not None
    validation, test = split(job, "validation"), split(job, "test")
    best, bad, scores, history, started = -1.0, 0, None, [], time.time()
    for _ in range(job.epochs):
        trainer.epoch()
        value = gauc(validation["user"], validation["label"], trainer.score(validation)).value
        history.append(value)
        if value > best:
            best, bad, scores = value, 0, trainer.score(test)
        else:
            bad += 1
        print(json.dumps({"epoch": len(history), "validation_gauc": value}), flush=True)
        if bad >= job.patience:
            break
    partial = Path(job.out).with_suffix(".part.npz")
    np.savez(partial, scores=scores, history=history, best=best, seconds=time.time() - started)
    partial.rename(job.out)
