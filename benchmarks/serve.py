"""The ranking service under load: ``python benchmarks/serve.py [--quick]``; one JSON line per case.

A service is started for a version with random weights on the Amazon-shaped log of ``workload.py``: DIN with embeddings of 64 + 64, DIEN
with the paper's 18 + 18 (GRU 36), and light DIEN with GRU 108 → 32 (54 + 54, DIEN section 5.5). Every user has a history of 100 behaviours. The load generator is a process of its own on the
same machine. ``one client`` sends the next request when the last one is answered; ``capacity`` is the highest rate of requests, sent
at even intervals over ``--connections`` connections whether or not the earlier ones are answered, at which all are answered and the
99th percentile, counted from the moment a request was due, is at most 20 ms. ``--overload`` sends twice that rate to a service with the
default queue: latency of the answered requests in the first and in the last third of the time, and the share that is refused with 503.
"""

import argparse
import asyncio
import gc
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from machine import this_commit, this_machine

from deep_interest.process import prepare_process

prepare_process()
MODELS = {"din": ("din", 64), "dien": ("dien", 18), "dien_light": ("dien_light", 54)}
CANDIDATES = (100, 400)
LIMIT_MS = 20.0
GROWTH = 1.2  # of the rates that `capacity` tries


def write_service(
    folder: Path, model: str, dim: int, settings: dict, *, versions: int = 1, options: dict | None = None,
    attention: str = "float32",
) -> Path:  # fmt: skip
    """Write versions ``v1`` …, their snapshots and the settings of a service; return the file of the settings. ``v1`` serves.

    Args:
        folder: folder of everything that is written.
        model: key of the model.
        dim: embedding width of item and of category.
        settings: settings of the service.
        versions: number of versions, with other random weights each.
        options: options of the model.
        attention: precision of DIN's activation unit.
    """
    import numpy as np
    import pandas as pd
    import torch
    from workload import amazon_shaped

    from deep_interest.logs.behavior_log import BehaviorLog
    from deep_interest.logs.encoding import FeatureTables
    from deep_interest.logs.feature_columns import FeatureColumns
    from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
    from deep_interest.models.registry import build_model, model_config
    from deep_interest.service.deployment import Serving
    from deep_interest.service.settings import ServiceSettings
    from deep_interest.serving.snapshot import SnapshotFacts, save_snapshot
    from deep_interest.serving.version import VersionArtifacts, read_version, write_version

    store = amazon_shaped(1000, full=True).store
    service = ServiceSettings(experiment=f"bench.{model}", folder=folder / "service", **settings)
    users, items = (
        Vocabulary(pd.Index(np.arange(1, size)))
        for size in (len(store.offsets) - 1, len(store.items["item_id"]))
    )
    arrays = {name: codes.numpy() for name, codes in store.history.items()}
    tables = FeatureTables(store.schema, {name: codes.numpy() for name, codes in store.items.items()}, {})
    for version in (f"v{number}" for number in range(1, versions + 1)):
        torch.manual_seed(int(version[1:]))
        config = model_config(model, options or {}, common={"embedding_dim": dim, "hidden": (200, 80)})
        net = build_model(model, config, store.schema)
        manifest = {
            "model": model, "config": config.model_dump(mode="json"), "schema": store.schema.model_dump(),
            "training": {"max_len": 100}, "precision": {"attention": attention},
        }  # fmt: skip
        write_version(
            folder / version, VersionArtifacts(manifest, net.state_dict(), {}, FieldVocabularies({}))
        )
        facts = SnapshotFacts(
            experiment=f"bench.{model}", version=version, columns=FeatureColumns(), max_len=100, log_end=0, last_day="2024-01-01",
        )  # fmt: skip
        save_snapshot(
            service.folder / "all" / f"{version}.2024-01-01", facts, read_version(folder / version),
            BehaviorLog(store.offsets.numpy(), arrays), tables, users, items,
        )  # fmt: skip
    Serving(primary="v1.2024-01-01").write(service.folder / "wanted.json")
    file = folder / "settings.json"
    file.write_text(service.model_dump_json())
    return file


def serve(file: Path) -> None:
    """Run the service of a settings file in this process."""
    from deep_interest.service.deployment import Serving
    from deep_interest.service.settings import ServiceSettings
    from deep_interest.service.supervisor import run_service

    settings = ServiceSettings.model_validate_json(file.read_text())
    wanted = settings.folder / "wanted.json"

    def prepare() -> Serving:
        serving = Serving.model_validate_json(wanted.read_text())
        for name in serving.snapshots:
            if not (settings.snapshots / name).exists():
                shutil.copytree(settings.folder / "all" / name, settings.snapshots / f".{name}")
                (settings.snapshots / f".{name}").rename(settings.snapshots / name)
        return serving

    run_service(settings, prepare, interval=0.5)


def bodies(candidates: int, count: int = 256) -> list[bytes]:
    """Return whole HTTP requests."""
    from workload import ITEMS, USERS

    draw = random.Random(0)
    found = []
    for _ in range(count):
        request = {
            "user": draw.randint(1, USERS),
            "candidates": [{"item": draw.randint(1, ITEMS), "bid": 1.5} for _ in range(candidates)],
        }
        body = json.dumps(request).encode()
        head = f"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        found.append(head + body)
    return found


async def answer_to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send a request and return the status of its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


async def one_client(port: int, requests: list[bytes], count: int) -> list[float]:
    """Return the seconds of each of ``count`` requests, sent one after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seconds = []
    for index in range(count + 50):
        start = time.perf_counter()
        status = await answer_to(reader, writer, requests[index % len(requests)])
        assert status == 200, status
        seconds.append(time.perf_counter() - start)
    writer.close()
    return seconds[50:]


async def at_rate(
    port: int, requests: list[bytes], *, rate: float, seconds: float, connections: int
) -> tuple[list[float], int]:
    """Return the seconds of each request from when it was due, and the number of failed ones."""
    due: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
    found, failed = [], 0

    async def client() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (job := await due.get()) is not None:
            index, moment = job
            status = await answer_to(reader, writer, requests[index % len(requests)])
            found.append(time.perf_counter() - moment)
            failed += status != 200
        writer.close()

    gc.collect()
    gc.freeze()  # the load generator has pauses of its own otherwise
    clients = [asyncio.create_task(client()) for _ in range(connections)]
    start = time.perf_counter() + 0.2
    for index in range(round(rate * seconds)):
        moment = start + index / rate
        if (wait := moment - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        due.put_nowait((index, moment))
    for _ in clients:
        due.put_nowait(None)
    await asyncio.gather(*clients)
    return found, failed


async def saturated(port: int, requests: list[bytes], *, count: int, connections: int) -> int:
    """Send requests so that every connection always has one waiting, and return their number."""
    remaining = iter(range(count))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for index in remaining:
            status = await answer_to(reader, writer, requests[index % len(requests)])
            assert status == 200, status
        writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return count


def p99(seconds: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return 1000 * sorted(seconds)[int(0.99 * len(seconds))]


def capacity(
    port: int, requests: list[bytes], *, seconds: float, connections: int, start: float = 40.0
) -> tuple[float, float]:
    """Return the highest rate, to a fortieth, at which the limit is kept, and its 99th percentile.

    Rates grow by a fifth from ``start`` requests per second on. At low rates requests find cold caches, so that a rate may fail where a
    higher one passes; the search ends after three failures in a row. It then halves the interval to the next rate three times.
    """

    def run(rate: float, least: float) -> tuple[list[float], int]:
        length = max(least, 300 / rate)
        return asyncio.run(at_rate(port, requests, rate=rate, seconds=length, connections=connections))

    def passes(rate: float) -> float | None:
        found, failed = run(rate, seconds)
        return None if failed or p99(found) > LIMIT_MS else p99(found)

    run(start, 3)  # warms up
    rate, best, failures = start, (0.0, 0.0), 0
    while failures < 3:
        percentile = passes(rate)
        best, failures = (best, failures + 1) if percentile is None else ((rate, percentile), 0)
        rate *= GROWTH
    step = math.sqrt(GROWTH)
    while best[0] and step > GROWTH**0.1:
        percentile = passes(best[0] * step)
        best = best if percentile is None else (best[0] * step, percentile)
        step = math.sqrt(step)
    return best


async def _sent_at(
    port: int, requests: list[bytes], rate: float, seconds: float
) -> list[tuple[float, float, int]]:
    """Send each request when it is due, on a connection of its own; return moment, seconds and status of each."""
    found: list[tuple[float, float, int]] = []

    async def client(index: int, moment: float) -> None:
        start = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status = await answer_to(reader, writer, requests[index % len(requests)])
        found.append((moment, time.perf_counter() - start, status))
        writer.close()

    start = time.perf_counter()
    async with asyncio.TaskGroup() as clients:
        for index in range(round(rate * seconds)):
            moment = index / rate
            if (wait := start + moment - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            clients.create_task(client(index, moment))
    return found


def overload(port: int, requests: list[bytes], *, rate: float, seconds: float) -> dict[str, float]:
    """Return what happens at a rate above the capacity: 99th percentiles of answered requests, and the share of refused ones."""
    found = asyncio.run(_sent_at(port, requests, rate, seconds))
    statuses = {status for _, _, status in found}
    assert statuses <= {200, 503}, statuses
    first, last = (
        [s for moment, s, status in found if status == 200 and low <= moment / seconds <= low + 1 / 3]
        for low in (0, 2 / 3)
    )
    return {
        "rate": round(rate, 1), "first_third_p99_ms": round(p99(first), 2), "last_third_p99_ms": round(p99(last), 2),
        "refused": round(sum(status == 503 for _, _, status in found) / len(found), 3),
        "answered_per_s": round(sum(status == 200 for _, _, status in found) / seconds, 1),
    }  # fmt: skip


def cases(models: Iterable[str], precisions: Iterable[str]) -> list[tuple[str, str]]:
    """Return each model with each precision of an activation unit; only DIN has one."""
    return [(model, of) for model in models for of in precisions if of == "float32" or model == "din"]


def measure(options: argparse.Namespace, model: str, attention: str, folder: Path) -> None:
    """Start the service of a model and print its lines."""
    key, dim = MODELS[model]
    port = options.port
    settings = {
        "port": port, "workers": options.workers, "threads": options.threads, "device": options.device, "access_log": False,
    }  # fmt: skip
    if not options.overload:
        settings["queue"] = 256
    file = write_service(folder, key, dim, settings, attention=attention)
    command = [sys.executable, __file__, "--serve", str(file)]
    pin = ["taskset", "-c", options.pin_service] if options.pin_service else []
    with subprocess.Popen([*pin, *command]) as process:
        try:
            wait_for(port)
            for candidates in CANDIDATES:
                requests = bodies(candidates)
                alone = asyncio.run(one_client(port, requests, 300 if options.quick else 3000))
                line = {
                    "bench": "serve", "case": f"history 100, {candidates} candidates", "model": model, "embedding_dim": dim, "attention": attention,
                    "one_client_p50_ms": round(1000 * statistics.median(alone), 2), "one_client_p99_ms": round(p99(alone), 2),
                }  # fmt: skip
                if not options.latency_only:
                    rate, percentile = capacity(
                        port, requests, seconds=3 if options.quick else 10, connections=options.connections
                    )
                    line |= {"requests_per_s": round(rate, 1), "p99_ms": round(percentile, 2)}
                    if options.overload and rate:
                        line["overload"] = overload(port, requests, rate=2 * rate, seconds=15)
                line |= {
                    "workers": options.workers, "threads": options.threads, "device": options.device, "pin_service": options.pin_service,
                    "connections": options.connections, "machine": this_machine(), "commit": this_commit(),
                }  # fmt: skip
                print(json.dumps(line), flush=True)
        finally:
            process.send_signal(signal.SIGTERM)


def wait_for(port: int) -> None:
    """Wait until the service answers."""
    import urllib.request

    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the service does not answer")


def main() -> None:
    """Measure every case, or serve."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument(
        "--attention",
        nargs="+",
        default=["float32", "bfloat16"],
        choices=["float32", "bfloat16"],
        help="precision of DIN's activation unit",
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu", help="device of the service: cpu, cuda, …")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--pin-service", metavar="CPUS", help="cores of the service, such as 0,1")
    parser.add_argument("--latency-only", action="store_true")
    parser.add_argument(
        "--overload",
        action="store_true",
        help="send twice the capacity as well; the queue is the default one",
    )
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    for model, attention in cases(options.models, options.attention):
        with tempfile.TemporaryDirectory() as folder:
            measure(options, model, attention, Path(folder))


if __name__ == "__main__":
    main()
    os._exit(0)
