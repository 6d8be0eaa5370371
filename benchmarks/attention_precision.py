"""What products in bfloat16 save when DIN scores: ``python benchmarks/attention_precision.py [--quick]``; one JSON line per number of candidates.

CPU time of a forward pass for one user with a history of 100 behaviours, on one thread; medians over alternating rounds. ``bfloat16_without_amx``
is what a CPU without AMX runs.
"""

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from typing import get_args
from unittest.mock import patch

from machine import this_commit, this_machine
from serve import CANDIDATES, MODELS

from deep_interest.ops.limits import AttentionPrecision
from deep_interest.process import prepare_process

PRECISIONS: tuple[AttentionPrecision, ...] = get_args(AttentionPrecision)
WITHOUT_AMX = "bfloat16_without_amx"
prepare_process()


def scoring_ms(candidates: int, *, rounds: int) -> dict[str, float]:
    """Return the median CPU time of scoring in each precision, in ms."""
    import torch
    from workload import ITEMS, amazon_shaped

    from deep_interest.models.batch import Batch
    from deep_interest.models.config import Precision
    from deep_interest.models.precision import reduce_precision
    from deep_interest.models.registry import build_model, model_config
    from deep_interest.ops.runtime.parallel import set_kernel_threads

    store, (key, dim) = amazon_shaped(100, full=True).store, MODELS["din"]
    config = model_config(key, {}, common={"embedding_dim": dim, "hidden": (200, 80)})
    models = {of: build_model(key, config, store.schema).eval() for of in PRECISIONS}
    for precision, model in models.items():
        reduce_precision(model, Precision(attention=precision))
    items = torch.randint(1, ITEMS, (candidates,))
    batch = Batch(
        candidate={name: codes[items] for name, codes in store.items.items()},
        history={name: codes[:100] for name, codes in store.history.items()},
        offsets=torch.tensor([0, 100]), profile={}, context={}, labels=torch.zeros(candidates),
        owner=torch.zeros(candidates, dtype=torch.int64),
    )  # fmt: skip
    cases = {**models, WITHOUT_AMX: models["bfloat16"]}
    times: dict[str, list[float]] = {of: [] for of in cases}
    set_kernel_threads(1)
    with torch.inference_mode():
        for _ in range(rounds + 3):
            for case, model in cases.items():
                with _without_amx() if case == WITHOUT_AMX else nullcontext():
                    start = time.process_time()
                    model(batch)
                    times[case].append(1000 * (time.process_time() - start))
    set_kernel_threads(None)
    return {of: statistics.median(found[3:]) for of, found in times.items()}


def _without_amx():
    return patch("deep_interest.ops.attention_bfloat16.has_amx", lambda: False)


def main() -> None:
    """Measure every number of candidates and print it."""
    import torch

    from deep_interest.ops.attention_bfloat16 import has_amx

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for candidates in CANDIDATES:
        found = scoring_ms(candidates, rounds=5 if options.quick else 60)
        line = {
            "bench": "attention_precision", "case": f"history 100, {candidates} candidates", "model": "din",
            **{f"{of}_ms": round(ms, 2) for of, ms in found.items()},
            "speedup": round(found["float32"] / found["bfloat16"], 2), "amx": has_amx(), "machine": this_machine(),
            "commit": this_commit(),
        }  # fmt: skip
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
