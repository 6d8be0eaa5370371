"""Compare training speed with public libraries and plain PyTorch; one JSON line per comparison and form of our model.

    python benchmarks/compare.py --install            # the libraries' environments, once; needs a network
    python benchmarks/compare.py --out build/bench/compare.jsonl [--quick] [--limit 1]
    python benchmarks/compare.py --device cuda --peers plain torch_rechub     # those that train on a GPU here

Both sides train on the same samples with layers of the same widths, Adam and the same number of threads, each in its
own training loop. They alternate, and the medians of their turns are compared. ``ratio`` is our samples per second over
theirs. The leading form of our DIEN has the peer's layers (``like for like``); the paper's form, with bilinear
attention and an inner-product loss, is measured in the same turns. With ``--out``, lines are appended to a file, and comparisons
that the file contains are skipped: an interrupted run resumes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cases import CASES, Case, Form, forms
from environments import PEERS, WORK, command, environment, install
from machine import others_share, this_commit, this_machine
from padded import padded
from peers.job import ANSWER
from train import make_fit, wait_for

if TYPE_CHECKING:
    from deep_interest.training.data import SampleSet

SAMPLES = 100_000
Train = Callable[[int], float]
"""Trains on so many samples and returns the seconds."""


class PeerError(RuntimeError):
    """A peer's process ended without an answer."""


def export(samples: "SampleSet", folder: Path) -> None:
    """Write the samples in the form that the peers read."""
    store = samples.store
    arrays = padded(
        item=samples.item.numpy(), user=samples.user.numpy().astype(np.int64), label=samples.labels.numpy(),
        end=samples.history_end.numpy().astype(np.int64), offsets=store.offsets.numpy(), item_ids=store.history["item_id"].numpy(),
        category=store.items["category"].numpy(), max_len=samples.max_len, rng=np.random.default_rng(0),
    )  # fmt: skip
    np.savez(folder / "train.npz", **arrays)
    sizes = {name: field.size for name, field in zip(("item", "category"), store.schema.item, strict=True)}
    (folder / "sizes.json").write_text(json.dumps(sizes))


@contextmanager
def peer(name: str, case: Case, data: Path, threads: int, device: str = "cpu") -> Iterator[Train]:
    """A process in which a peer trains by its own loop.

    Raises:
        PeerError: in training, if the process ended; the message has the end of its standard error.
    """
    job = {
        "task": "speed", "data": str(data), "model": case.model, "dim": case.dim, "batch_size": case.batch_size, "seed": 1,
        "threads": threads, "device": device,
    }  # fmt: skip
    order, log = data / f"{name}.json", data / f"{name}.log"
    order.write_text(json.dumps(job))
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command(name, order), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
        ) as process,
    ):  # fmt: skip

        def train(samples: int) -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{samples}\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith(ANSWER):
                    return float(line.removeprefix(ANSWER))
            raise PeerError(f"{name} ended without an answer; its last words:\n{log.read_text()[-2000:]}")

        try:
            yield train
        finally:
            process.kill()


def ours(samples: "SampleSet", case: Case, form: Form) -> Train:
    """Our training steps, in this process."""
    import torch

    fit = make_fit(
        samples, model=case.model, batch_size=case.batch_size, common={"embedding_dim": case.dim}, options=form.options
    )  # fmt: skip
    fit.model.train()

    def train(count: int) -> float:
        order = torch.randperm(len(samples))[:count]
        start = time.perf_counter()
        for rows in order.split(case.batch_size):
            fit.train_step(rows)
        wait_for(fit.device)
        return time.perf_counter() - start

    return train


def alternate(
    sides: Mapping[str, Train], *, batch_size: int, seconds: float, turns: int, most: int = SAMPLES
) -> dict[str, list[float]]:
    """Samples per second of each side in each turn.

    Args:
        sides: who trains.
        batch_size: samples per step.
        seconds: about how long a side trains in a turn; at least four steps, at most an epoch.
        turns: how often each side trains, one after the other.
        most: number of samples that there are.
    """
    counts: dict[str, int] = {}
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    probe = 4 * batch_size
    for side, train in sides.items():
        train(probe)
        steps = max(4, round(seconds * probe / train(probe) / batch_size))
        counts[side] = min(most // batch_size, steps) * batch_size
        train(counts[side])  # a peer builds its data set for so many samples, and warms up
    for _ in range(turns):
        for side, train in sides.items():
            speeds[side].append(counts[side] / train(counts[side]))
    return speeds


def key_of(name: str, case: Case, threads: int, device: str = "cpu") -> dict[str, Any]:
    """What identifies a comparison."""
    at = {} if device == "cpu" else {"device": device}
    return {
        "bench": "compare", "model": case.model, "case": case.name, "batch_size": case.batch_size, "embedding_dim": case.dim,
        "peer": name, "threads": threads, **at,
    }  # fmt: skip


def compare(
    name: str,
    case: Case,
    samples: "SampleSet",
    *,
    data: Path,
    threads: int,
    device: str,
    seconds: float,
    turns: int,
) -> list[dict[str, Any]]:
    """The lines of one comparison, one for each form of our model."""
    own = {form.name: form for form in forms(case.model, name)}
    share = others_share()
    with peer(name, case, data, threads, device) as theirs:
        sides = {key: ours(samples, case, form) for key, form in own.items()} | {"peer": theirs}
        speeds = alternate(sides, batch_size=case.batch_size, seconds=seconds, turns=turns)
        others = share()
    return [
        key_of(name, case, threads, device)
        | {"form": form.name, "layers": form.layers, "peer_name": PEERS[name].name}
        | figures(speeds[key], speeds["peer"])
        | {
            "turns": turns,
            "others_cpu": round(others, 3),
            "machine": this_machine(device),
            "commit": this_commit(),
        }
        for key, form in own.items()
    ]


def figures(own: list[float], peers: list[float]) -> dict[str, Any]:
    """Medians of samples per second, their ratio, and the slowest and fastest turns."""
    median, peer_median = statistics.median(own), statistics.median(peers)
    return {
        "samples_per_s": round(median), "peer_samples_per_s": round(peer_median), "ratio": round(median / peer_median, 2),
        "range": [round(min(own)), round(max(own))], "peer_range": [round(min(peers)), round(max(peers))],
    }  # fmt: skip


def pending(
    cases: list[Case], names: list[str], *, threads: int, device: str = "cpu", out: Path | None
) -> Iterator[tuple[Case, str]]:
    """The comparisons that a file does not hold yet, in their order."""
    lines = out.read_text().splitlines() if out is not None and out.exists() else []
    known = [json.loads(line) for line in lines]
    for case in cases:
        for name in names:
            key = key_of(name, case, threads, device)
            if not any(key.items() <= line.items() for line in known):
                yield case, name


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--install", action="store_true", help="make the environments; needs a network")
    parser.add_argument("--quick", action="store_true", help="batches of 1024 only")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--models", nargs="+", choices=["din", "dien"], default=["din", "dien"])
    parser.add_argument("--cases", nargs="+", choices=["jagged", "full"], default=["jagged", "full"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1024, 128, 32])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu; cuda for plain PyTorch and torch-rechub")
    parser.add_argument("--seconds", type=float, default=2, help="of each side in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, help="append to this file, and skip what it holds already")
    parser.add_argument("--limit", type=int, help="stop after so many comparisons")
    return parser.parse_args()


def main() -> int:
    """Make the chosen comparisons; the exit status is 1 if a peer failed."""
    import torch
    from workload import amazon_shaped

    options = parse()
    if options.install:
        install(options.peers, WORK)
        return 0
    torch.set_num_threads(options.threads)
    sizes = [1024] if options.quick else options.batch_sizes
    cases = [
        case
        for case in CASES
        if case.model in options.models and case.name in options.cases and case.batch_size in sizes
    ]
    left = list(
        islice(
            pending(cases, options.peers, threads=options.threads, device=options.device, out=options.out),
            options.limit,
        )
    )
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        sets: dict[str, SampleSet] = {}
        for case, name in left:
            data = Path(folder) / case.name
            if case.name not in sets:
                data.mkdir()
                export(amazon_shaped(SAMPLES, full=case.full), data)
                sets[case.name] = amazon_shaped(SAMPLES, full=case.full, device=options.device)
            try:
                lines = compare(
                    name, case, sets[case.name], data=data, threads=options.threads, device=options.device,
                    seconds=options.seconds, turns=options.turns,
                )  # fmt: skip
            except PeerError as error:
                print(error, file=sys.stderr)
                failed = True
                continue
            text = "".join(json.dumps(line) + "\n" for line in lines)
            print(text, end="", flush=True)
            if options.out is not None:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                with options.out.open("a") as file:
                    file.write(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
