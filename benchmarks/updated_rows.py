r"""The time of an optimiser's step that updates the rows of the batch, next to one that updates all rows of the table.

    python benchmarks/updated_rows.py --rows 10000 100000 1000000

Adam with L2 on one thread, rows of 32 numbers, batches of 512 samples with 10,000 ids; medians of steps that alternate.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

from deep_interest.logs.schema import Field
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table
from deep_interest.training.optimizers import Optimizer
from deep_interest.training.parameters import TrainingOptions

WIDTH, SAMPLES, IDS = 32, 512, 10_000
WAYS = ("batch", "all")


class OneTable(nn.Module):
    """A table and a weight per column."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = Table(Field(name="item_id", size=rows), WIDTH, groups=("item", "behavior"), std=0.1)
        self.weight = nn.Parameter(torch.ones(WIDTH))


def milliseconds(rows: int, *, steps: int) -> dict[str, float]:
    """Median milliseconds of a step with ``updated_rows: batch`` and ``all``."""
    models = {way: OneTable(rows) for way in WAYS}
    optimizers = {
        way: Optimizer(model, TrainingOptions(l2=1e-4, updated_rows=way)) for way, model in models.items()
    }
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(steps + 2):
        ids = torch.randint(0, rows, (IDS,), dtype=torch.int32)
        offsets = torch.linspace(0, IDS, SAMPLES + 1).long()
        batch = Batch({"item_id": ids[:SAMPLES]}, {"item_id": ids}, offsets, {}, {}, torch.zeros(SAMPLES))
        for way in WAYS:
            (models[way].table(ids) @ models[way].weight).sum().backward()
            started = time.perf_counter()
            optimizers[way].step(batch)
            times[way].append(1000 * (time.perf_counter() - started))
    return {way: float(np.median(values[2:])) for way, values in times.items()}


def main() -> None:
    """Print a line per number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for rows in options.rows:
        found = milliseconds(rows, steps=options.steps)
        print(f"{rows:>10,} rows: " + ", ".join(f"{way} {value:.2f} ms" for way, value in found.items()))


if __name__ == "__main__":
    main()
