"""Training speed against public libraries, alternating with ours in one run; one JSON line a comparison.

    python benchmarks/compare.py --install            # the libraries' environments, once; needs a network
    python benchmarks/compare.py [--quick]

The same samples and layer widths, Adam, two threads; each side trains whole epochs by its own loop, ours by turns with the
library's, and the medians are compared. A library's epoch is as many batches as it manages in ``--seconds``. ``ratio`` is our samples
per second over theirs.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from environments import PEERS, WORK, command, environment, install
from padded import padded
from peers.job import ANSWER
from train import make_fit

if TYPE_CHECKING:
    from deep_interest.training.data import SampleSet

SAMPLES = 100_000


@dataclass(frozen=True)
class Case:
    """What both sides train.

    Attributes:
        model: ``din`` or ``dien`` (with its auxiliary loss, where the library has one).
        batch_size: samples a step.
        dim: embedding width of item and of category.
        full: every history is 100 long, instead of 9 in the mean.
    """

    model: str
    batch_size: int
    dim: int = 64
    full: bool = False

    @property
    def name(self) -> str:
        return "full" if self.full else "jagged"


CASES = (
    Case("din", 1024), Case("din", 128), Case("din", 32), Case("dien", 1024), Case("dien", 128), Case("dien", 128, dim=18),
    Case("din", 128, full=True), Case("dien", 128, full=True),
)  # fmt: skip


def export(samples: "SampleSet", folder: Path) -> None:
    """The samples as the libraries take them."""
    store = samples.store
    arrays = padded(
        item=samples.item.numpy(), user=samples.user.numpy().astype(np.int64), label=samples.labels.numpy(),
        end=samples.history_end.numpy().astype(np.int64), offsets=store.offsets.numpy(), goods=store.history["goods"].numpy(),
        category=store.items["category"].numpy(), max_len=samples.max_len, rng=np.random.default_rng(0),
    )  # fmt: skip
    np.savez(folder / "train.npz", **arrays)
    sizes = {name: field.size for name, field in zip(("item", "category"), store.schema.item, strict=True)}
    (folder / "sizes.json").write_text(json.dumps(sizes))


@contextmanager
def library(name: str, case: Case, data: Path, threads: int) -> Iterator[Callable[[int], float]]:
    """A function that lets the library train an epoch of so many samples, and returns its seconds."""
    job = {
        "task": "speed", "data": str(data), "model": case.model, "dim": case.dim, "batch_size": case.batch_size, "seed": 1,
        "threads": threads,
    }  # fmt: skip
    order = data / f"{name}.json"
    order.write_text(json.dumps(job))
    with subprocess.Popen(
        command(name, order),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    ) as process:

        def train(samples: int) -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{samples}\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith(ANSWER):
                    return float(line.removeprefix(ANSWER))
            raise SystemExit(
                f"{name} ended; run its runner by hand to see why: {' '.join(command(name, order))}"
            )

        try:
            yield train
        finally:
            process.kill()


def our_epoch(samples: "SampleSet", case: Case) -> Callable[[int], float]:
    """As `library`, of ours."""
    import torch

    fit = make_fit(samples, model=case.model, batch_size=case.batch_size, common={"embedding_dim": case.dim})
    fit.model.train()

    def train(count: int) -> float:
        order = torch.randperm(len(samples))[:count]
        start = time.perf_counter()
        for rows in order.split(case.batch_size):
            fit.train_step(rows)
        return time.perf_counter() - start

    train(8 * case.batch_size)
    return train


def compare(
    name: str,
    case: Case,
    *,
    data: Path,
    ours: Callable[[int], float],
    threads: int,
    seconds: float,
    repeats: int,
) -> dict:
    """Medians of both sides over alternating runs of about ``seconds`` each."""
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    with library(name, case, data, threads) as theirs:
        sides = {"ours": ours, "theirs": theirs}
        counts = {}
        for side, train in sides.items():
            probe = 4 * case.batch_size
            train(probe)
            speed = probe / train(probe)
            batches = max(4, round(seconds * speed / case.batch_size))
            counts[side] = min(SAMPLES // case.batch_size, batches) * case.batch_size
        theirs(counts["theirs"])  # builds, and warms up
        for _ in range(repeats):
            for side, train in sides.items():
                speeds[side].append(counts[side] / train(counts[side]))
    median = {side: statistics.median(found) for side, found in speeds.items()}
    return {
        "bench": "compare", "case": case.name, "model": case.model, "batch_size": case.batch_size, "embedding_dim": case.dim,
        "peer": PEERS[name].name, "samples_per_s": round(median["ours"]), "peer_samples_per_s": round(median["theirs"]),
        "ratio": round(median["ours"] / median["theirs"], 1), "threads": threads,
        "auxiliary_loss": case.model == "dien" and name != "fuxictr",
    }  # fmt: skip


def main() -> None:
    """Compare in every case with every library and print it."""
    import torch
    from workload import amazon_shaped

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--install", action="store_true", help="make the libraries' environments (needs a network)"
    )
    parser.add_argument("--quick", action="store_true", help="DIN and DIEN at 1024 only")
    parser.add_argument("--peers", nargs="+", choices=sorted(PEERS), default=sorted(PEERS))
    parser.add_argument("--models", nargs="+", choices=["din", "dien"], default=["din", "dien"])
    parser.add_argument("--cases", nargs="+", choices=["jagged", "full"], default=["jagged", "full"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.install:
        install(options.peers, WORK)
        return
    torch.set_num_threads(options.threads)
    cases = [case for case in CASES if case.model in options.models and case.name in options.cases]
    if options.quick:
        cases = [case for case in cases if case.batch_size == 1024]
    for full in (False, True):
        if not any(case.full == full for case in cases):
            continue
        samples = amazon_shaped(SAMPLES, full=full)
        with tempfile.TemporaryDirectory() as folder:
            export(samples, Path(folder))
            for case in (case for case in cases if case.full == full):
                ours = our_epoch(samples, case)
                for name in options.peers:
                    line = compare(
                        name, case, data=Path(folder), ours=ours, threads=options.threads, seconds=options.seconds, repeats=options.repeats
                    )  # fmt: skip
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
