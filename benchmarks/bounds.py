"""Cost of the bounds checks in a training step: ``python benchmarks/bounds.py``; one JSON line a case.

Steps with and without the checks alternate in one process; medians of the process's CPU time, so that other programs matter little.
"""

import argparse
import json
import statistics
import time
from contextlib import contextmanager

from train import make_fit

CHECKS = {
    "deep_interest.ops.embedding": ("check_codes", "_check_codes"),
    "deep_interest.ops.histories": ("check_slices",),
    "deep_interest.ops.gradients": ("check_codes",),
    "deep_interest.ops.adam": ("check_codes",),
    "deep_interest.models.batch": ("check_offsets", "check_codes"),
}


@contextmanager
def without_checks():
    """Replace every check by a function that does nothing."""
    from importlib import import_module

    modules = {name: import_module(name) for name in CHECKS}
    before = {
        (name, check): getattr(modules[name], check) for name, checks in CHECKS.items() for check in checks
    }
    for name, check in before:
        setattr(modules[name], check, lambda *arguments, **options: None)
    try:
        yield
    finally:
        for (name, check), function in before.items():
            setattr(modules[name], check, function)


def main() -> None:
    """Measure DIN and DIEN with small and large batches."""
    import torch
    from workload import amazon_shaped

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--steps", type=int, default=400, help="pairs of steps a case, fewer for large batches"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    samples = amazon_shaped(60_000)
    for model in ("din", "dien"):
        for size in (32, 1024):
            fit = make_fit(samples, model=model, batch_size=size)
            fit.model.train()
            pairs = max(30, arguments.steps * 32 // size) if size > 32 else arguments.steps
            seconds: dict[bool, list[float]] = {True: [], False: []}
            for number, rows in enumerate(torch.randperm(len(samples)).split(size)[: pairs + 5]):
                for checked in (True, False) if number % 2 else (False, True):
                    start = time.process_time()
                    if checked:
                        fit.train_step(rows)
                    else:
                        with without_checks():
                            start = time.process_time()
                            fit.train_step(rows)
                    if number >= 5:
                        seconds[checked].append(time.process_time() - start)
            checked, unchecked = (statistics.median(seconds[key]) for key in (True, False))
            difference = statistics.median(
                [a - b for a, b in zip(seconds[True], seconds[False], strict=True)]
            )
            line = {
                "bench": "bounds",
                "case": "jagged",
                "model": model,
                "batch_size": size,
                "ms": round(1e3 * checked, 3),
            }
            line |= {"ratio": round(checked / unchecked, 4), "added_us": round(1e6 * difference, 1)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
