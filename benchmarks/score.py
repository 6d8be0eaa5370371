"""Latency of scoring one user's candidates: ``python benchmarks/score.py [--quick]``; one JSON line a case.

History of 100 behaviours, 100 and 400 candidates. DIN with embeddings of 64 + 64, DIEN with the paper's 18 + 18. What depends on
the user alone is computed once a request.
"""

import argparse
import json
import time

from deep_interest.models.registry import build_model, model_config
from deep_interest.process import prepare_process

prepare_process()  # before torch is imported, which the functions do
CASES = {"din": 64, "dien": 18}  # embedding widths
CANDIDATES = (100, 400)
HISTORY = 100


def latencies(model: str, *, dim: int, candidates: int, requests: int) -> list[float]:
    """Seconds of each request, after a warm-up, sorted."""
    import torch
    from workload import amazon_shaped

    from deep_interest.serving.scorer import Scorer

    store = amazon_shaped(1000, full=True).store
    torch.manual_seed(0)
    config = model_config(model, {}, common={"embedding_dim": dim, "hidden": (200, 80)})
    score = Scorer(build_model(model, config, store.schema))
    found = []
    for request in range(requests + 20):
        begin = request * HISTORY
        history = {name: codes[begin : begin + HISTORY] for name, codes in store.history.items()}
        items = torch.randint(1, len(store.items["item_id"]), (candidates,))
        start = time.perf_counter()
        score(history, {name: codes[items] for name, codes in store.items.items()})
        found.append(time.perf_counter() - start)
    return sorted(found[20:])


def main() -> None:
    """Measure every case and print it."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 requests a case instead of 2,000")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    requests = 200 if arguments.quick else 2000
    for model, dim in CASES.items():
        for candidates in CANDIDATES:
            seconds = latencies(model, dim=dim, candidates=candidates, requests=requests)
            quantiles = {f"p{q}_ms": round(1000 * seconds[int(len(seconds) * q / 100)], 2) for q in (50, 99)}
            line = {
                "bench": "score", "case": f"history {HISTORY}, {candidates} candidates", "model": model, "embedding_dim": dim,
                **quantiles, "requests": requests, "threads": torch.get_num_threads(),
            }  # fmt: skip
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
