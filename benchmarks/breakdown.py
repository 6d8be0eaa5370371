"""Measure the time of each part of a training step: ``python benchmarks/breakdown.py``; one JSON line per part.

The workload is that of ``train.py`` with jagged histories. Every call of a kernel that threads may share is timed. The
rest is Python, autograd, torch's own operations, and work of one thread for all others, such as sorting ids and packing
weights.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from train import make_fit

PARTS = {
    "attention": "attention unit and pooling",
    "jagged_products": "attention and the auxiliary loss",
    "jagged": "attention and the auxiliary loss, accumulating gradients of histories and states",
    "gru": "GRUs",
    "mlp": "MLP",
    "vector": "MLP",
    "embedding": "embedding lookup and accumulating embedding gradients",
    "histories": "gathering histories",
    "adam": "Adam",
}
REST = "outside the kernels"


@contextmanager
def timed_loops() -> Iterator[Counter]:
    """Add up the seconds of every part while the context is open."""
    from deep_interest.ops.runtime import parallel

    seconds: Counter = Counter()
    run = parallel.run_kernel

    def timed(kernel: Callable, *arguments, work: int) -> None:
        start = time.perf_counter()
        run(kernel, *arguments, work=work)
        name = kernel.py_func.__module__.rpartition(".")[2]  # type: ignore[attr-defined]
        seconds[PARTS.get(name, name)] += time.perf_counter() - start

    holders: list[ModuleType] = [
        module for name, module in sys.modules.items() if name.startswith("deep_interest.ops.") and getattr(module, "run_kernel", None) is run
    ]  # fmt: skip
    for module in holders:
        module.run_kernel = timed  # type: ignore[attr-defined]
    try:
        yield seconds
    finally:
        for module in holders:
            module.run_kernel = run  # type: ignore[attr-defined]


def breakdown(samples, *, model: str, batch_size: int, steps: int) -> dict[str, float]:
    """Return the mean milliseconds of each part of a step, the longest first."""
    import torch

    fit = make_fit(samples, model=model, batch_size=batch_size)
    fit.model.train()
    batches = torch.randperm(len(samples)).split(batch_size)[:-1]
    for rows in batches[:10]:
        fit.train_step(rows)
    with timed_loops() as seconds:
        start = time.perf_counter()
        for step in range(steps):
            fit.train_step(batches[step % len(batches)])
        whole = time.perf_counter() - start
    seconds[REST] = whole - sum(seconds.values())
    return {part: 1000 * value / steps for part, value in seconds.most_common()}


def main() -> None:
    """Measure and print."""
    import torch
    from workload import amazon_shaped

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["din", "dien"])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    samples = amazon_shaped(200_000, full=False)
    for model in options.models:
        found = breakdown(samples, model=model, batch_size=options.batch_size, steps=options.steps)
        for part, milliseconds in found.items():
            line = {
                "bench": "breakdown", "model": model, "batch_size": options.batch_size, "threads": torch.get_num_threads(),
                "part": part, "ms": round(milliseconds, 3), "share": round(milliseconds / sum(found.values()), 4),
            }  # fmt: skip
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
