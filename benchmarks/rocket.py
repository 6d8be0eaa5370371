"""Rocket Launching: light nets against their boosters, in accuracy and in cost per request; one JSON line per comparison and case.

    python benchmarks/rocket.py --dataset movielens_1m --seeds 1 2 3 4 5    # trains what is not trained yet
    python benchmarks/rocket.py --dataset simulated --read                  # only reads what a run has left

``accuracy``: difference of the GAUC of two models on the test set, with its 95 % interval over users and seeds. The models of
``kedro run --pipelines=rocket.<dataset>``: ``din`` and ``dien`` (the boosters alone), their light nets trained alone, by plain
distillation, and by Rocket Launching. ``cost``: one request, history of 100 behaviours, 400 candidates, scored by light net and
booster in turn; the widths are those of DIN (64 + 64) and of DIEN (18 + 18, GRU 36; 54 + 54, GRU 108).
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ModelRuns, compare
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.process import prepare_process

prepare_process()  # before torch is imported, which the functions do
PROJECT = Path(__file__).parents[1]
BASES = ("din", "dien")
VARIANTS = ("", "_light_alone", "_distilled", "_light")
PAIRS = (
    ("_light", "_light_alone"),
    ("_distilled", "_light_alone"),
    ("_light", "_distilled"),
    ("_light", ""),
)
CASES = {"din, 64 + 64": ("din", 64), "dien, 18 + 18": ("dien", 18), "dien, 54 + 54": ("dien", 54)}
HISTORY, CANDIDATES = 100, 400


def results_of(dataset: str, env: str | None) -> tuple[pd.DataFrame, dict[str, ModelRuns]]:
    """The test samples, and the predictions that a run has left for every model, by key."""
    from deep_interest.commands.session import open_project

    models = [f"{base}{variant}" for base in BASES for variant in VARIANTS]
    with open_project(env, PROJECT) as context:
        load = context.catalog.load
        samples = load(f"{dataset}.samples").query("split == 'test'").reset_index(drop=True)
        predictions = {model: load(f"{dataset}.{model}.predictions") for model in models}
    return samples[["user", "label"]], {model: runs_of(model, of) for model, of in predictions.items()}


def runs_of(model: str, predictions: pd.DataFrame) -> ModelRuns:
    """The predictions of a model as `compare` takes them."""
    columns = [name for name in predictions if name.startswith("seed_")]
    seeds = tuple(int(name.removeprefix("seed_")) for name in columns)
    unknown = np.full(len(seeds), np.nan)
    return ModelRuns(MODELS[model].name, seeds, predictions[columns].to_numpy().T, unknown, unknown)


def accuracy(dataset: str, test: pd.DataFrame, runs: dict[str, ModelRuns]) -> list[dict]:
    """The lines of all pairs of models."""
    lines = []
    for base in BASES:
        for ours, other in ((f"{base}{a}", f"{base}{b}") for a, b in PAIRS):
            table = compare(test, {key: runs[key] for key in (other, ours)}, base=other).set_index("model")
            row = table.loc[ours]
            found = {
                name: round(float(row[name]), 5)
                for name in ("difference", "difference_low", "difference_high", "p_value")
            }
            lines.append(
                {
                    "bench": "rocket", "case": "accuracy", "dataset": dataset, "model": ours, "against": other,
                    "gauc": round(float(row["gauc"]), 5), "gauc_against": round(float(table.loc[other, "gauc"]), 5), **found,
                    "seeds": len(runs[ours].seeds),
                }
            )  # fmt: skip
    return lines


def request_times(
    base: str, dim: int, *, requests: int, history: int = HISTORY, candidates: int = CANDIDATES
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each request by the clock, and of the processor, of booster and light net, which take turns.

    Args:
        base: key of the booster.
        dim: embedding width.
        requests: measured requests of each.
        history: behaviours of the user.
        candidates: candidates of a request.
    """
    import torch
    from train import options_of
    from workload import amazon_shaped

    from deep_interest.serving.scorer import Scorer

    store = amazon_shaped(1000, full=True).store
    common = {"embedding_dim": dim, "hidden": (200, 80), "attention_hidden": (80, 40)}
    scorers = {}
    for model in (base, f"{base}_light"):
        torch.manual_seed(0)
        config = model_config(model, options_of(model), common=common)
        scorers[model] = Scorer(build_model(model, config, store.schema))
    times: dict[str, list[tuple[float, float]]] = {model: [] for model in scorers}
    for request in range(requests + 20):
        behaviors = slice(request * history, (request + 1) * history)
        user = {name: codes[behaviors] for name, codes in store.history.items()}
        items = torch.randint(1, len(store.items["item_id"]), (candidates,))
        chosen = {name: codes[items] for name, codes in store.items.items()}
        for model, score in scorers.items():
            start = time.perf_counter(), time.process_time()
            score(user, chosen)
            if request >= 20:
                times[model].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return times


def cost(case: str, *, requests: int) -> list[dict]:
    """The lines of booster and light net of a case."""
    import torch

    base, dim = CASES[case]
    times, lines = request_times(base, dim, requests=requests), []
    cpu = {model: statistics.fmean(of for _, of in each) for model, each in times.items()}
    for model, each in times.items():
        wall = np.array([seconds for seconds, _ in each])
        lines.append(
            {
                "bench": "rocket", "case": f"cost, {case}", "model": model, "candidates": CANDIDATES, "history": HISTORY,
                "p50_ms": round(1e3 * float(np.quantile(wall, 0.5)), 3), "p99_ms": round(1e3 * float(np.quantile(wall, 0.99)), 3),
                "cpu_ms": round(1e3 * cpu[model], 3), "cpu_ratio": round(cpu[model] / cpu[base], 3),
                "threads": torch.get_num_threads(), "requests": requests,
            }
        )  # fmt: skip
    return lines


def main() -> None:
    """Train what is missing, and print every comparison and case."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="movielens_1m")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--env")
    parser.add_argument("--params", default="", help="further parameters of the run")
    parser.add_argument(
        "--read", action="store_true", help="do not train; read the predictions of the last run"
    )
    parser.add_argument("--cost-only", action="store_true", help="only the cost of a request")
    parser.add_argument("--threads", type=int, help="threads of a request")
    parser.add_argument("--quick", action="store_true", help="200 requests a case instead of 1,000")
    arguments = parser.parse_args()
    if not (arguments.read or arguments.cost_only):
        parameters = f"training.seeds={' '.join(map(str, arguments.seeds))}"
        parameters += f",{arguments.params}" if arguments.params else ""
        command = [
            sys.executable,
            "-m",
            "kedro",
            "run",
            f"--pipelines=rocket.{arguments.dataset}",
            f"--params={parameters}",
        ]
        command += [f"--env={arguments.env}"] if arguments.env else []
        subprocess.run(command, cwd=PROJECT, check=True, stdout=sys.stderr)
    if not arguments.cost_only:
        for line in accuracy(arguments.dataset, *results_of(arguments.dataset, arguments.env)):
            print(json.dumps(line), flush=True)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    for case in CASES:
        for line in cost(case, requests=200 if arguments.quick else 1000):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
