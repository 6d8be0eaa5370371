"""Latency of one request in process: the project's scorer next to exported models, alternating request by request.

    python benchmarks/export_latency.py [--quick] [--threads N]

One JSON line a case: history of 100 behaviours, 100 and 400 candidates; DIN with embeddings of 64 + 64, DIEN with the
paper's 18 + 18 (GRU of 36). ``onnx`` is ONNX Runtime, ``aot`` the torch.export program compiled by AOTInductor, which
needs a C++ compiler, and ``pt2`` the program as `torch.export.load` returns it. Requests are encoded before the clock
starts.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from deep_interest.models.registry import build_model, model_config
from deep_interest.process import prepare_process

prepare_process()  # before torch is imported, which the functions do
CASES = {"din": 64, "dien": 18}  # embedding widths
CANDIDATES = (100, 400)
HISTORY = 100
WARM_UP = 20
SLOW_EVERY = 20  # the loops of `pt2` return to Python at each step, so it answers every 20th request only
TOLERANCE = 1e-5

Codes = dict[str, np.ndarray]
Engine = Callable[[Codes, Codes], np.ndarray]


def engines(
    key: str, *, dim: int, threads: int, folder: Path
) -> tuple[dict[str, Engine], Callable[[int, int], tuple[Codes, Codes]]]:
    """Return what scores a request, by name, and a function that draws request k with a number of candidates."""
    import onnxruntime
    import torch
    from workload import amazon_shaped

    from deep_interest.export.program import trace, write_onnx, write_pt2
    from deep_interest.serving.scorer import Scorer

    store = amazon_shaped(1000, full=True).store
    torch.manual_seed(0)
    model = build_model(
        key, model_config(key, {}, common={"embedding_dim": dim, "hidden": (200, 80)}), store.schema
    )
    score, program = Scorer(model), trace(model)
    write_onnx(program, folder / f"{key}.onnx")
    write_pt2(program, folder / f"{key}.pt2")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / f"{key}.onnx", options)
    loaded = torch.export.load(folder / f"{key}.pt2")
    package = torch._inductor.aoti_compile_and_package(loaded, package_path=str(folder / f"{key}.aoti.pt2"))
    module, compiled = loaded.module(), torch._inductor.aoti_load_package(package)

    def with_names(history: Codes, candidates: Codes) -> dict[str, np.ndarray]:
        named = {f"history.{name}": codes for name, codes in history.items()}
        return named | {f"candidates.{name}": codes for name, codes in candidates.items()}

    def tensors(codes: Codes) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(values) for name, values in codes.items()}

    def by_torch(run: Callable) -> Engine:
        def answer(history: Codes, candidates: Codes) -> np.ndarray:
            with torch.inference_mode():
                return run(tensors(with_names(history, candidates))).numpy()

        return answer

    def draw(k: int, candidates: int) -> tuple[Codes, Codes]:
        rng, rows = np.random.default_rng(k), slice(k * HISTORY, (k + 1) * HISTORY)
        items = rng.integers(1, len(store.items["item_id"]), candidates)
        history = {name: codes[rows].numpy().astype(np.int64) for name, codes in store.history.items()}
        return history, {name: codes.numpy()[items].astype(np.int64) for name, codes in store.items.items()}

    found: dict[str, Engine] = {
        "scorer": lambda history, candidates: score(tensors(history), tensors(candidates)).numpy(),
        "onnx": lambda history, candidates: session.run(None, with_names(history, candidates))[0],
        "aot": by_torch(compiled),
        "pt2": by_torch(module),
    }
    return found, draw


def measure(
    found: dict[str, Engine], draw: Callable, *, candidates: int, requests: int
) -> dict[str, list[float]]:
    """Return the seconds of each engine's requests, sorted; the engines answer each request one after the other."""
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for k in range(WARM_UP + requests):
        request, expected = draw(k, candidates), None
        for name in _rotated(list(found), k):
            if name == "pt2" and k % SLOW_EVERY:
                continue
            start = time.perf_counter()
            ctr = found[name](*request)
            elapsed = time.perf_counter() - start
            if k >= WARM_UP:
                seconds[name].append(elapsed)
            expected = ctr if expected is None else expected
            assert np.abs(ctr - expected).max() <= TOLERANCE, (name, np.abs(ctr - expected).max())
    return {name: sorted(values) for name, values in seconds.items()}


def _rotated(names: list[str], k: int) -> list[str]:
    """Begin with another engine at each request."""
    first = k % len(names)
    return names[first:] + names[:first]


def main() -> None:
    """Measure every case and print it."""
    import torch
    from machine import others_share, this_commit, this_machine

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 requests a case instead of 1,000")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    requests = 200 if arguments.quick else 1000
    print(
        json.dumps({"machine": this_machine(), "commit": this_commit(), "threads": arguments.threads}),
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        for key, dim in CASES.items():
            found, draw = engines(key, dim=dim, threads=arguments.threads, folder=Path(folder))
            for candidates in CANDIDATES:
                share = others_share()
                measured = measure(found, draw, candidates=candidates, requests=requests)
                line = {
                    "bench": "export",
                    "model": key,
                    "embedding_dim": dim,
                    "history": HISTORY,
                    "candidates": candidates,
                }
                for name, values in measured.items():
                    line |= {
                        f"{name}_p{q}_ms": round(1000 * values[int(len(values) * q / 100)], 2)
                        for q in (50, 99)
                    }
                print(
                    json.dumps(line | {"requests": requests, "others_share": round(share(), 2)}), flush=True
                )


if __name__ == "__main__":
    main()
