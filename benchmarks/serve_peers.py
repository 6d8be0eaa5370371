"""Our service next to the same model behind a thin server: ``python benchmarks/serve_peers.py [--quick]``; one JSON line per case.

    python benchmarks/compare.py --install --peers deepctr_torch     # once; needs a network
    python benchmarks/serve_peers.py --models din dien --quick

All sides rank the same requests, with histories of 100 behaviours: ``ours``, the whole service; ``onnx`` and ``onnx_pool``, the ONNX export
of the same model, run by ONNX Runtime, one request after the other with all threads, or several at once with one thread each;
``deepctr_torch``, DIN of DeepCTR-Torch with layers of the same widths (random weights; DIN only). The three thin servers
(``peers/thin_server.py``) are Starlette and uvicorn with arrays in memory, without events, metrics and versions. DIN is
built as all peers build it (``cases.DIN``).

The sides alternate: ``--turns`` turns of one client that sends the next request when the last one is answered (p50 and p99: medians of
the turns), then, again alternating, as many requests as possible over ``--connections`` connections (``saturated_per_s``), and the
highest rate at which the 99th percentile is at most 20 ms (``requests_per_s``, as in ``serve.py``). ``ratio`` is the saturated throughput of
our service over that of the side.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cases import DIN
from environments import PROJECT, WORK, environment
from machine import others_share, this_commit, this_machine
from serve import (
    CANDIDATES,
    LIMIT_MS,
    MODELS,
    answer_to,
    bodies,
    capacity,
    one_client,
    p99,
    wait_for,
    write_service,
)

SIDES = ("ours", "onnx", "onnx_pool", "deepctr_torch")
OPTIONS = {"din": DIN}
SPREAD = {"embedding_std": 0.5}  # so that the scores of random weights differ from item to item
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Side:
    """A server that is measured.

    Attributes:
        name: one of `SIDES`.
        port: its port.
        command: its command line.
    """

    name: str
    port: int
    command: list[str]


def write_sides(options: argparse.Namespace, model: str, folder: Path) -> list[Side]:
    """Write the service, the export and the arrays, and return the sides that serve the model."""
    key, dim = MODELS[model]
    port, threads = options.port, options.threads
    settings = {"port": port, "threads": threads, "queue": 256, "access_log": False}
    service = write_service(folder, key, dim, settings, options=SPREAD | OPTIONS.get(model, {}))
    arrays = write_arrays(folder / "arrays.npz")
    export(folder / "v1", folder / "model.onnx")
    job = {"arrays": str(arrays), "model": str(folder / "model.onnx"), "threads": threads, "dim": dim}
    jobs = {"onnx": {"engine": "onnx"}, "onnx_pool": {"engine": "onnx", "pool": True}}
    if model == "din":
        jobs["deepctr_torch"] = {"engine": "deepctr_torch"}
    serve = [sys.executable, str(PROJECT / "benchmarks/serve.py"), "--serve", str(service)]
    sides = [Side("ours", port, serve)]
    for offset, (name, more) in enumerate(jobs.items(), 1):
        file = folder / f"{name}.json"
        file.write_text(json.dumps(job | more | {"port": port + offset}))
        python = WORK / "environments/deepctr_torch/bin/python" if name == "deepctr_torch" else sys.executable
        script = str(PROJECT / "benchmarks/peers/thin_server.py")
        sides.append(Side(name, port + offset, [str(python), script, str(file)]))
    return [side for side in sides if side.name in options.sides]


def write_arrays(path: Path) -> Path:
    """Write the log of the service in the form of the thin server."""
    from workload import amazon_shaped

    store = amazon_shaped(1000, full=True).store
    history = {name: codes.numpy().astype(np.int64) for name, codes in store.history.items()}
    np.savez(
        path,
        offsets=store.offsets.numpy(),
        item_category=store.items["category"].numpy().astype(np.int64),
        **history,
    )
    return path


def export(version: Path, path: Path) -> None:
    """Write the ONNX export of a version."""
    from deep_interest.export.program import trace, write_onnx
    from deep_interest.serving.version import read_version

    write_onnx(trace(read_version(version).model()), path)


@contextmanager
def running(sides: list[Side]) -> Iterator[None]:
    """Start all servers, and end them."""
    processes = []
    try:
        for side in sides:
            processes.append(subprocess.Popen(side.command, env=environment()))
        for side in sides:
            wait_for(side.port)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait()


def check_equal(sides: list[Side], request: bytes) -> float:
    """Return the largest difference of our scores from those of the exports.

    Raises:
        SystemExit: the export has other scores.
    """
    scores = {}
    for side in (side for side in sides if side.name != "deepctr_torch"):
        body = request.partition(b"\r\n\r\n")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{side.port}/rank", body) as answer:
            scores[side.name] = {of["item"]: of["ctr"] for of in json.load(answer)["ranking"]}
    first = next(iter(scores.values()), {})
    largest = max((abs(of[item] - first[item]) for of in scores.values() for item in first), default=0.0)
    if largest > TOLERANCE:
        raise SystemExit(f"the scores of the sides differ by {largest:.2g}")
    return largest


async def saturated(port: int, requests: list[bytes], *, seconds: float, connections: int) -> float:
    """Return the number of requests per second that are answered when every connection always has one waiting."""
    end, count = time.perf_counter() + seconds, 0

    async def client(first: int) -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            status = await answer_to(reader, writer, requests[(first + count) % len(requests)])
            assert status == 200, status
            count += 1
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client(index) for index in range(connections)))
    return count / (time.perf_counter() - start)


def measure(
    options: argparse.Namespace, sides: list[Side], requests: list[bytes]
) -> dict[str, dict[str, Any]]:
    """Return p50, p99 and the throughput of each side for requests."""
    names = [side.name for side in sides]
    p50s: dict[str, list[float]] = {name: [] for name in names}
    p99s: dict[str, list[float]] = {name: [] for name in names}
    throughput: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.turns):
        for side in sides:
            seconds = asyncio.run(one_client(side.port, requests, options.count))
            p50s[side.name].append(1000 * statistics.median(seconds))
            p99s[side.name].append(p99(seconds))
    for _ in range(options.turns):
        for side in sides:
            rate = saturated(side.port, requests, seconds=options.seconds, connections=options.connections)
            throughput[side.name].append(asyncio.run(rate))
    results: dict[str, dict[str, Any]] = {}
    for side in sides:
        name = side.name
        results[name] = {
            "p50_ms": round(statistics.median(p50s[name]), 2), "p99_ms": round(statistics.median(p99s[name]), 2),
            "saturated_per_s": round(statistics.median(throughput[name]), 1),
        }  # fmt: skip
        if options.capacity:
            results[name]["requests_per_s"] = round(
                rate_within_limit(options, side, requests, results[name]), 1
            )
    return results


def rate_within_limit(
    options: argparse.Namespace, side: Side, requests: list[bytes], results: dict[str, Any]
) -> float:
    """Return the highest rate at which the 99th percentile is at most the limit; 0 if it is above with a single client."""
    if results["p50_ms"] > LIMIT_MS:
        return 0.0
    best, _ = capacity(
        side.port, requests, seconds=options.seconds, connections=16, start=0.3 * results["saturated_per_s"]
    )
    return best


def line_of(
    options: argparse.Namespace, model: str, candidates: int, results: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the line of a case."""
    line: dict[str, Any] = {
        "bench": "serve_peers", "case": f"history 100, {candidates} candidates", "model": model,
        "embedding_dim": MODELS[model][1], "threads": options.threads, "turns": options.turns, "connections": options.connections,
    }  # fmt: skip
    for name, values in results.items():
        line[name] = values
        if name != "ours" and "ours" in results:
            values["ratio"] = round(results["ours"]["saturated_per_s"] / values["saturated_per_s"], 2)
            values["ratio_p50"] = round(values["p50_ms"] / results["ours"]["p50_ms"], 2)
    return line


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, without requests_per_s")
    parser.add_argument("--models", nargs="+", default=["din", "dien"], choices=list(MODELS))
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--candidates", nargs="+", type=int, default=list(CANDIDATES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--connections", type=int, default=8, help="of the saturated runs")
    parser.add_argument("--port", type=int, default=8110, help="first of four ports")
    options = parser.parse_args()
    options.turns, options.count, options.seconds = (3, 50, 1.5) if options.quick else (5, 400, 5)
    options.capacity = not options.quick
    return options


def main() -> None:
    """Measure every case and print its line."""
    options = parse()
    for model in options.models:
        with tempfile.TemporaryDirectory() as name:
            sides = write_sides(options, model, Path(name))
            with running(sides):
                for candidates in options.candidates:
                    requests = bodies(candidates)
                    difference = check_equal(sides, requests[0])
                    share = others_share()
                    line = line_of(options, model, candidates, measure(options, sides, requests))
                    line |= {
                        "largest_difference": difference, "others_cpu": round(share(), 2), "machine": this_machine(),
                        "commit": this_commit(),
                    }  # fmt: skip
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
