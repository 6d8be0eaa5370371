"""Whether scoring requests together pays: ``python benchmarks/batching.py [--device cuda]``; one JSON line per model and number of requests.

``speedup`` is the time of scoring requests one after the other over that of scoring them in one forward pass, by
`serving.scorer.Scorer` as in the service: each request has a history of 100 behaviours and its own candidates, its codes are on
the CPU, and its scores arrive there. Medians over alternating rounds; on a CPU, one thread. ``largest_difference`` is that of the
scores from those of the plain implementation on the CPU, request by request.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from machine import this_commit, this_machine
from serve import MODELS

from deep_interest.process import prepare_process

prepare_process()
CASES = (
    (1, 100), (2, 100), (4, 100), (8, 100), (1, 400), (2, 400), (4, 400), (8, 400), (4, 20),
)  # requests, candidates  # fmt: skip
Codes = dict[str, torch.Tensor]
Request = tuple[Codes, Codes, Codes, Codes]


def requests_of(store, count: int, candidates: int) -> list[Request]:
    """Return history, candidates, profile and context of some users."""
    from workload import ITEMS

    items = torch.randint(1, ITEMS, (count, candidates), generator=torch.Generator().manual_seed(count))
    return [
        (
            {name: codes[100 * user : 100 * (user + 1)] for name, codes in store.history.items()},
            {name: codes[items[user]] for name, codes in store.items.items()}, {}, {},
        )
        for user in range(count)
    ]  # fmt: skip


def one_by_one(scorer, requests: list[Request]) -> torch.Tensor:
    """Return the scores of each request, scored alone."""
    return torch.cat([scorer(history, candidates).cpu() for history, candidates, *_ in requests])


def together(scorer, requests: list[Request]) -> torch.Tensor:
    """Return the scores of all requests, scored in one forward pass."""
    return scorer.together(requests).cpu()


def alternating(runs: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median milliseconds of each function."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds + 3):
        for run, found in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return [1000 * statistics.median(found[3:]) for found in seconds]


def lines(options: argparse.Namespace, model: str) -> Iterator[dict]:
    """Measure the cases of a model."""
    from workload import amazon_shaped

    from deep_interest.models.registry import build_model, model_config
    from deep_interest.ops.runtime.engine import set_engine
    from deep_interest.serving.scorer import Scorer

    store, device = amazon_shaped(1000, full=True).store, torch.device(options.device)
    key, dim = MODELS[model]
    config = model_config(key, {}, common={"embedding_dim": dim, "hidden": (200, 80), "embedding_std": 0.5})
    torch.manual_seed(0)
    on_cpu = Scorer(build_model(key, config, store.schema))
    torch.manual_seed(0)
    scorer = on_cpu
    if device.type != "cpu":
        scorer = Scorer(build_model(key, config, store.schema).to(device), device=device)
    for count, candidates in CASES:
        requests = requests_of(store, count, candidates)
        set_engine("plain")
        expected = one_by_one(on_cpu, requests)
        set_engine("compiled")
        runs = [lambda of=of: of(scorer, requests) for of in (one_by_one, together)]  # noqa: B023
        difference = max(float((run() - expected).abs().max()) for run in runs)
        alone, joint = alternating(runs, options.rounds)
        yield {
            "case": f"{count} requests of {candidates} candidates", "speedup": round(alone / joint, 2),
            "ms_one_by_one": round(alone, 3), "ms_together": round(joint, 3), "largest_difference": difference,
        }  # fmt: skip


def main() -> None:
    """Measure every case and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, …")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    name = this_machine(options.device)
    for model in options.models:
        for found in lines(options, model):
            line = {"bench": "batching", "model": model, **found, "machine": name, "commit": this_commit()}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
