"""Training steps on long histories: ``python benchmarks/long_histories.py [--quick]``; one JSON line per model and length.

Every history of a case is full. A step has about as many behaviours at every length (``--behaviors``), so that
``cpu_us_per_behavior`` shows what a behaviour costs: for DIN it should not grow with the length (``ratio_to_100``). At the same
length, ``speedup_over_din`` is the time of a step of DIN divided by that of the model, on the same samples. Both are ratios of
the CPU time of all threads, on which other programs have little influence; ``step_ms`` is by the clock. Steps of all models
alternate in one process; the numbers are medians over rounds. Embeddings of width 64 for item and category, MLP 200-80,
activation unit 80-40, options of ``models.yml``.
"""

import argparse
import json
import resource
import statistics
import time
from dataclasses import replace

from train import make_fit

LENGTHS = (100, 1_000, 10_000)
MODELS = ("din", "base", "sim_hard", "sim_soft", "eta", "sdim", "twin", "stca")


def long_samples(samples: int, length: int):
    """Samples of the Amazon-shaped set of ``workload.py`` whose histories all have one length."""
    import numpy as np
    import torch
    from workload import amazon_shaped

    from deep_interest.training.history import LogTensors

    shaped = amazon_shaped(samples, full=True)
    users = max(2, 2_000_000 // length)
    rng = np.random.default_rng(1)
    old = shaped.store.log.fields["item_id"].numpy()
    item = torch.from_numpy(old[rng.integers(0, len(old), users * length)])
    category = shaped.store.items["category"][item.long()]
    offsets = torch.arange(users + 2).sub(1).clamp(min=0) * length
    store = replace(shaped.store, log=LogTensors(offsets, {"item_id": item, "category": category}))
    user = torch.from_numpy(rng.integers(1, users + 1, samples).astype(np.int32))
    return replace(
        shaped,
        store=store,
        max_len=length,
        user=user,
        history_end=torch.full((samples,), length, dtype=torch.int32),
    )


def step_seconds(
    length: int, models: list[str], *, behaviors: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Return the median times of a training step of each model on histories of one length: by the clock, and of the CPU."""
    import torch

    batch_size = max(1, behaviors // length)
    samples = long_samples(40 * batch_size, length)
    order = torch.randperm(len(samples)).split(batch_size)
    fits = {model: make_fit(samples, model=model, batch_size=batch_size) for model in models}
    times: dict[str, list[tuple[float, float]]] = {model: [] for model in models}
    for step in range(rounds + 2):
        for model, fit in fits.items():
            fit.model.train()
            start = time.perf_counter(), time.process_time()
            fit.train_step(order[step % len(order)])
            if step >= 2:
                times[model].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return {
        model: (statistics.median(wall for wall, _ in steps), statistics.median(cpu for _, cpu in steps))
        for model, steps in times.items()
    }


def main() -> None:
    """Measure every case and print it."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--models", nargs="+", default=list(MODELS[:-1]), choices=MODELS)
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS))
    parser.add_argument("--behaviors", type=int, default=320_000, help="behaviours of a step")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    first: dict[str, float] = {}
    for length in arguments.lengths:
        rounds = 4 if arguments.quick else 15
        seconds = step_seconds(length, arguments.models, behaviors=arguments.behaviors, rounds=rounds)
        count = max(1, arguments.behaviors // length) * length
        for model, (wall, step) in seconds.items():
            first.setdefault(model, step / count)
            line = {
                "bench": "long_histories", "case": f"history {length}", "model": model, "batch_size": count // length,
                "step_ms": round(1e3 * wall, 2), "cpu_us_per_behavior": round(1e6 * step / count, 4),
                f"ratio_to_{arguments.lengths[0]}": round(step / count / first[model], 3),
                "threads": torch.get_num_threads(), "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }  # fmt: skip
            if "din" in seconds:
                line["speedup_over_din"] = round(seconds["din"][1] / step, 2)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
