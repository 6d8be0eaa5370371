"""Cost of own columns of a behaviour: ``python benchmarks/own_columns.py [--quick]``; one JSON line per model and option.

Training steps on the Amazon-shaped samples of ``workload.py``, whose behaviours have 0 or 3 columns of their own (10 codes
each). Steps with and without columns alternate in one process, on the same samples; ``percent_per_column`` is a third of
the additional CPU time of all threads, medians over rounds. A further line per model is the cost of match counts, next to
columns with ``own_fields: both``. Embeddings of width 64 for item, category and each
column, MLP 200-80, activation unit 80-40, options of ``models.yml``.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace

from train import make_fit

MODELS = ("base", "din", "dien")
OPTIONS = ("both", "concat", "scale")
COLUMNS, CODES = 3, 10


def with_columns(samples, count: int):
    """The samples with ``count`` own columns of each behaviour."""
    import torch

    from deep_interest.logs.schema import Field

    store, generator = samples.store, torch.Generator().manual_seed(1)
    behaviors = len(store.log.fields["item_id"])
    fields = tuple(Field(name=f"column_{k}", size=CODES + 1) for k in range(count))
    codes = {
        field.name: torch.randint(1, field.size, (behaviors,), dtype=torch.int32, generator=generator)
        for field in fields
    }
    schema = store.schema.model_copy(update={"behavior": (*store.schema.behavior, *fields)})
    log = replace(store.log, fields=store.log.fields | codes)
    return replace(samples, store=replace(store, schema=schema, log=log))


def step_seconds(model: str, *, batch_size: int, rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of a training step without columns, with them for each option, and with match counts as well."""
    import torch
    from workload import amazon_shaped

    plain = amazon_shaped(40 * batch_size)
    columns = with_columns(plain, COLUMNS)
    fits = {"none": make_fit(plain, model=model, batch_size=batch_size)}
    for option in OPTIONS:
        fits[option] = make_fit(columns, model=model, batch_size=batch_size, common={"own_fields": option})
    fits["match_counts"] = make_fit(
        columns, model=model, batch_size=batch_size, common={"own_fields": "both", "match_counts": True}
    )
    order = torch.randperm(len(plain)).split(batch_size)
    times: dict[str, list[float]] = {option: [] for option in fits}
    for step in range(rounds + 2):
        for option, fit in fits.items():
            fit.model.train()
            start = time.process_time()
            fit.train_step(order[step % len(order)])
            if step >= 2:
                times[option].append(time.process_time() - start)
    return {option: statistics.median(seconds) for option, seconds in times.items()}


def main() -> None:
    """Measure every model and option and print it."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--batch-size", type=int, default=1024)
    arguments = parser.parse_args()
    for model in arguments.models:
        seconds = step_seconds(model, batch_size=arguments.batch_size, rounds=10 if arguments.quick else 40)
        for option in OPTIONS:
            ratio = seconds[option] / seconds["none"]
            line = {
                "bench": "own_columns", "model": model, "own_fields": option, "columns": COLUMNS, "batch_size": arguments.batch_size,
                "cpu_ms_without": round(1e3 * seconds["none"], 2), "cpu_ms": round(1e3 * seconds[option], 2),
                "percent_per_column": round(100 * (ratio - 1) / COLUMNS, 1), "threads": torch.get_num_threads(),
            }  # fmt: skip
            print(json.dumps(line), flush=True)
        line = {
            "bench": "match_counts", "model": model, "batch_size": arguments.batch_size,
            "cpu_ms_without": round(1e3 * seconds["both"], 2), "cpu_ms": round(1e3 * seconds["match_counts"], 2),
            "percent": round(100 * (seconds["match_counts"] / seconds["both"] - 1), 1), "threads": torch.get_num_threads(),
        }  # fmt: skip
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
