"""How cost grows: ``python benchmarks/scale.py [--quick]``; one JSON line per point, and one with the slope of each series.

``samples``: seconds of an epoch at 10^5, 10^6 and 10^7 samples. ``history``: seconds per sample when every history is 10, 20, 50 or
100 long. ``table``: seconds per step when the item table has 10^5, 10^6 or 10^7 rows. DIN, embeddings of 16 + 16, batch 1024, Adam. A slope is that of
the logarithms: 1 is linear, 0 is constant.
"""

import argparse
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from train import make_fit, measure

if TYPE_CHECKING:
    from deep_interest.training.data import SampleSet

BATCH, WIDTH = 1024, {"embedding_dim": 16}


def samples_series(sizes: list[int]) -> list[tuple[int, float]]:
    """Seconds of a whole epoch, gathering included."""
    import torch
    from workload import amazon_shaped

    found = []
    for size in sizes:
        fit = make_fit(amazon_shaped(size), model="din", batch_size=BATCH, common=WIDTH)
        order = torch.randperm(size)
        fit.model.train()
        for rows in order[: 5 * BATCH].split(BATCH):
            fit.train_step(rows)
        start = time.perf_counter()
        for rows in order.split(BATCH):
            fit.train_step(rows)
        found.append((size, time.perf_counter() - start))
    return found


def history_series(lengths: list[int]) -> list[tuple[int, float]]:
    """Seconds a sample, all histories of one length."""
    from workload import amazon_shaped

    full = amazon_shaped(50_000, full=True)
    found = []
    for length in lengths:
        fit = make_fit(replace(full, max_len=length), model="din", batch_size=BATCH, common=WIDTH)
        found.append((length, 1 / measure(fit, seconds=2, repeats=5)))
    return found


def table_series(sizes: list[int]) -> list[tuple[int, float]]:
    """Seconds a step, the items spread over tables of growing size: medians of stretches that take turns."""
    from workload import amazon_shaped

    samples = amazon_shaped(50_000)
    fits = [make_fit(_spread(samples, size), model="din", batch_size=BATCH, common=WIDTH) for size in sizes]
    rounds = [[BATCH / measure(fit, seconds=1, repeats=1) for fit in fits] for _ in range(11)]
    return list(zip(sizes, np.median(rounds, axis=0).tolist(), strict=True))


def _spread(samples: "SampleSet", size: int) -> "SampleSet":
    """The same samples with their items' codes spread evenly over ``size`` rows."""
    store = samples.store
    apart = size // len(store.items["item_id"])
    widen = lambda fields: fields | {"item_id": fields["item_id"] * apart}  # noqa: E731

    def grow(fields):
        return tuple(f.model_copy(update={"size": size}) if f.name == "item_id" else f for f in fields)

    schema = store.schema.model_copy(
        update={"item": grow(store.schema.item), "behavior": grow(store.schema.behavior)}
    )
    wider = replace(store, schema=schema, items=widen(store.items), history=widen(store.history))
    return replace(samples, store=wider)


def main() -> None:
    """Measure every series and print it."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="no more than 10^6 samples and rows")
    parser.add_argument("--series", nargs="+", default=["samples", "history", "table"])
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    sizes = [10**5, 10**6] if arguments.quick else [10**5, 10**6, 10**7]
    series = {
        "samples": lambda: samples_series(sizes),
        "history": lambda: history_series([10, 20, 50, 100]),
        "table": lambda: table_series(sizes),
    }
    for name in arguments.series:
        points = series[name]()
        for size, seconds in points:
            print(
                json.dumps({"bench": "scale", "case": name, "model": "din", "size": size, "seconds": seconds}), flush=True
            )  # fmt: skip
        slope = np.polyfit(*np.log(np.array(points)).T, 1)[0]
        ratio = points[-1][1] / points[0][1]
        line = {"bench": "scale", "case": name, "slope": round(slope, 3), "last_to_first": round(ratio, 3)}
        print(json.dumps(line | {"threads": torch.get_num_threads()}), flush=True)


if __name__ == "__main__":
    main()
