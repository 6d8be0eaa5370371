"""Whether scoring requests together pays: ``python benchmarks/batching.py``; one JSON line per model and number of requests.

``speedup`` is the time of scoring requests one after the other over that of scoring them in one forward pass, each with a history
of 100 behaviours and its own candidates, on one thread; medians over alternating rounds.
"""

import argparse
import json
import statistics
import time

from machine import this_commit, this_machine
from serve import MODELS

from deep_interest.process import prepare_process

prepare_process()


def main() -> None:
    """Measure every case and print it."""
    import torch
    from workload import ITEMS, amazon_shaped

    from deep_interest.models.batch import Batch
    from deep_interest.models.registry import build_model, model_config

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = amazon_shaped(1000, full=True).store
    for model, (key, dim) in MODELS.items():
        net = build_model(
            key, model_config(key, {}, common={"embedding_dim": dim, "hidden": (200, 80)}), store.schema
        ).eval()
        for count, candidates in ((2, 100), (4, 100), (8, 100), (4, 20)):
            items = torch.randint(1, ITEMS, (count * candidates,))

            def batch(
                first: int, users: int, items: torch.Tensor = items, candidates: int = candidates
            ) -> Batch:
                part = items[first * candidates : (first + users) * candidates]
                rows = slice(100 * first, 100 * (first + users))
                return Batch(
                    candidate={name: codes[part] for name, codes in store.items.items()},
                    history={name: codes[rows] for name, codes in store.history.items()},
                    offsets=torch.arange(users + 1) * 100, profile={}, context={}, labels=torch.zeros(len(part)),
                    owner=torch.arange(users).repeat_interleave(candidates),
                )  # fmt: skip

            times: dict[bool, list[float]] = {True: [], False: []}
            with torch.inference_mode():
                for _ in range(options.rounds + 3):
                    for together, seconds in times.items():
                        batches = (
                            [batch(0, count)] if together else [batch(first, 1) for first in range(count)]
                        )
                        start = time.perf_counter()
                        for of in batches:
                            net(of)
                        seconds.append(time.perf_counter() - start)
            alone, joint = (statistics.median(times[together][3:]) for together in (False, True))
            line = {
                "bench": "batching", "model": model, "case": f"{count} requests of {candidates} candidates",
                "speedup": round(alone / joint, 2), "ms_one_by_one": round(1000 * alone, 2), "ms_together": round(1000 * joint, 2),
                "machine": this_machine(), "commit": this_commit(),
            }  # fmt: skip
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
