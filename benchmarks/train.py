"""Training speed on an Amazon-shaped set: ``python benchmarks/train.py [--quick]``; one JSON line per case.

Embedding 64 + 64, attention 80-40, MLP 200-80, Adam; samples per second of whole training steps, batch gathering
included, as the median over repeated stretches.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from deep_interest.models.registry import model_config, model_row  # first: it says how torch's threads wait

if TYPE_CHECKING:
    from deep_interest.training.data import SampleSet

COMMON = {"embedding_dim": 64, "attention_hidden": (80, 40), "hidden": (200, 80)}


def measure(samples: "SampleSet", *, model: str, batch_size: int, seconds: float, repeats: int) -> float:
    """Median samples per second over the stretches."""
    import torch

    from deep_interest.training.loop import Fit
    from deep_interest.training.parameters import TrainingOptions

    config = model_config(model, {}, common=COMMON)
    torch.manual_seed(0)
    net = model_row(model).load()(config, samples.store.schema).to(samples.labels.device)
    with TemporaryDirectory() as folder:
        fit = Fit(
            label=model, model=net, train=samples, validation=samples, options=TrainingOptions(batch_size=batch_size), seed=0,
            state_file=Path(folder) / "state.pt", fingerprint="",
        )  # fmt: skip
        order = torch.randperm(len(samples), device=samples.labels.device).split(batch_size)[:-1]
        net.train()
        warm_up = [fit.train_step(rows) for rows in order[:5]]
        speeds, position = [], len(warm_up)
        for _ in range(repeats):
            start, done = time.perf_counter(), 0
            while time.perf_counter() - start < seconds:
                fit.train_step(order[position % len(order)])
                position, done = position + 1, done + batch_size
            speeds.append(done / (time.perf_counter() - start))
    return statistics.median(speeds)


def main() -> None:
    """Measure every case and print it."""
    import torch
    from workload import amazon_shaped

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter stretches, the main case only")
    parser.add_argument("--models", nargs="+", default=["lr", "base", "din", "din_softmax", "din_dice"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[128, 1024])
    parser.add_argument("--cases", nargs="+", default=["jagged", "full"])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    models, sizes, cases = arguments.models, arguments.batch_sizes, arguments.cases
    if arguments.quick:
        models, sizes, cases = ["din"], [1024], ["jagged"]
    for case in cases:
        samples = amazon_shaped(200_000, full=case == "full", device=arguments.device)
        for model in models:
            for batch_size in sizes:
                speed = measure(
                    samples,
                    model=model,
                    batch_size=batch_size,
                    seconds=2 if arguments.quick else 4,
                    repeats=5,
                )
                print(
                    json.dumps(
                        {
                            "bench": "train", "case": case, "model": model, "batch_size": batch_size,
                            "samples_per_s": round(speed), "threads": torch.get_num_threads(),
                            "device": arguments.device,
                        }
                    ),
                    flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
