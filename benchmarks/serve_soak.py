"""The service under load while everything changes: ``python benchmarks/serve_soak.py [--minutes 10]``; prints one JSON line.

Two workers serve requests at an even rate, 80 % of the capacity that is measured first (as by ``serve.py``). Meanwhile the version is
replaced ten times and a worker is killed five times. Every answer is compared with the scores of the version that it names, so that an
answer from two versions would be found. A failure is that of a killed worker if it comes within two seconds of the kill; a kill can
cause at most one on each of the ``CONNECTIONS``. ``memory_mb`` has the memory that only this worker uses (USS), of each worker after each
replacement.

Afterwards events are posted one by one, and the whole service is killed with SIGKILL at a random moment of it and started again,
``--kills`` times. At the end all acknowledged events must be in the store.
"""

import argparse
import asyncio
import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
from machine import this_commit, this_machine
from serve import bodies, capacity, p99, wait_for, write_service

DISTINCT = 32  # requests, whose scores are known for both versions
CONNECTIONS = 16
SHARE_OF_CAPACITY = 0.8
LIMIT_AFTER_KILL = 2.0  # seconds


def expected_scores(settings_file: Path, requests: list[bytes]) -> list[dict[str, dict[int, float]]]:
    """Return the scores of each request by version and item."""
    from deep_interest.service.rank_request import parse_ranked
    from deep_interest.service.settings import ServiceSettings
    from deep_interest.serving.ranker import Ranker

    settings = ServiceSettings.model_validate_json(settings_file.read_text())
    rankers = [Ranker.load(folder) for folder in sorted((settings.folder / "all").iterdir())]
    found = []
    for request in requests:
        wanted = parse_ranked(request.partition(b"\r\n\r\n")[2])
        items = wanted.items
        ranked = {of.version: of.rank(wanted.ranking_request()).ctr.tolist() for of in rankers}
        found.append({version: dict(zip(items, ctr, strict=True)) for version, ctr in ranked.items()})
    return found


class Load:
    """Sends requests at an even rate and checks the answers.

    Args:
        port: port of the service.
        requests: whole HTTP requests.
        expected: scores by version and item of each.
    """

    def __init__(self, port: int, requests: list[bytes], expected: list[dict[str, dict[int, float]]]) -> None:
        self.port, self.requests, self.expected = port, requests, expected
        self.seconds: list[float] = []
        self.failures: list[tuple[float, str]] = []
        self.mixed = 0
        self.answers: dict[str, int] = {}

    async def run(self, rate: float, seconds: float, connections: int) -> None:
        """Send requests for some seconds."""
        due: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
        clients = [asyncio.create_task(self._client(due)) for _ in range(connections)]
        start = time.perf_counter()
        for index in range(round(rate * seconds)):
            moment = start + index / rate
            if (wait := moment - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            due.put_nowait((index % len(self.requests), moment))
        for _ in clients:
            due.put_nowait(None)
        await asyncio.gather(*clients)

    async def _client(self, due: "asyncio.Queue[tuple[int, float] | None]") -> None:
        reader = writer = None
        while (job := await due.get()) is not None:
            index, moment = job
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(self.requests[index])
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
            except (OSError, asyncio.IncompleteReadError) as error:
                self.failures.append((time.time(), repr(error)))
                writer = None
                continue
            if head[9:12] != b"200":
                self.failures.append((time.time(), str(body)))
                continue
            self.seconds.append(time.perf_counter() - moment)
            self._check(index, body)
        if writer is not None:
            writer.close()

    def _check(self, index: int, body: dict) -> None:
        version = body["version"]
        self.answers[version] = self.answers.get(version, 0) + 1
        known = self.expected[index][version]
        self.mixed += any(abs(known[of["item"]] - of["ctr"]) > 1e-6 for of in body["ranking"])


def post_until_killed(port: int, first: int) -> tuple[list[int], int]:
    """Post events one by one until the service does not answer; return the times that were acknowledged, and the last one tried."""
    acknowledged = []
    for time_ in itertools.count(first):
        event = {"events": [{"user": 1, "item": 1 + time_ % 1000, "time": time_}]}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/events", json.dumps(event).encode())
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                found = json.load(answer)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return acknowledged, time_
        assert found == {"accepted": 1}, found
        acknowledged.append(time_)
    raise AssertionError


def start(file: Path, port: int) -> subprocess.Popen:
    """Start the service."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("serve.py")), "--serve", str(file)]
    )
    wait_for(port)
    return process


def workers(process: subprocess.Popen) -> list[psutil.Process]:
    """Return the worker processes."""
    children = psutil.Process(process.pid).children()
    return [
        of
        for of in children
        if of.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(of.cmdline())
    ]


def kill_all(process: subprocess.Popen) -> None:
    """Kill the service with SIGKILL."""
    for of in (*workers(process), psutil.Process(process.pid)):
        of.kill()
    process.wait()


async def change_all(
    process: subprocess.Popen, wanted: Path, *, seconds: float, replacements: int, kills: int
) -> tuple[list[float], dict[int, list[int]]]:
    """Replace the version and kill workers at even intervals; return the moments of the kills, and the memory of each worker in MB."""
    from deep_interest.service.deployment import Serving

    steps, killed, memory = max(replacements, 1), [], dict[int, list[int]]()
    for step in range(steps):
        await asyncio.sleep(seconds / (steps + 1))
        Serving(primary=f"v{1 + (step + 1) % 2}.2024-01-01").write(wanted)
        await asyncio.sleep(min(5, seconds / (steps + 1) / 4))
        for worker in workers(process):
            memory.setdefault(worker.pid, []).append(worker.memory_full_info().uss >> 20)
        if step * kills // steps != (step + 1) * kills // steps:
            await asyncio.sleep(seconds / (steps + 1) / 3)
            workers(process)[0].kill()
            killed.append(time.time())
    return killed, memory


def main() -> None:
    """Run everything and print the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--rate", type=float, help="requests per second; 80 %% of the measured capacity by default"
    )
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--replacements", type=int, default=10)
    parser.add_argument("--worker-kills", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20, help="times that the whole service is killed")
    parser.add_argument("--port", type=int, default=8098)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"port": options.port, "workers": 2, "threads": 1, "queue": 256, "access_log": False}
        file = write_service(folder, "din", 64, settings, versions=2)
        requests = bodies(options.candidates, DISTINCT)
        load = Load(options.port, requests, expected_scores(file, requests))
        wanted = folder / "service/wanted.json"
        process = start(file, options.port)
        measured = None
        if options.rate is None:
            measured, _ = capacity(options.port, requests, seconds=5, connections=CONNECTIONS)
        rate = options.rate or SHARE_OF_CAPACITY * measured

        async def under_load() -> tuple[list[float], dict[int, list[int]]]:
            seconds = 60 * options.minutes
            _, changes = await asyncio.gather(
                load.run(rate, seconds, CONNECTIONS),
                change_all(
                    process,
                    wanted,
                    seconds=seconds,
                    replacements=options.replacements,
                    kills=options.worker_kills,
                ),
            )
            return changes

        killed, memory = asyncio.run(under_load())
        of_kills = [
            sum(-0.1 < moment - kill < LIMIT_AFTER_KILL for moment, _ in load.failures) for kill in killed
        ]
        draw, acknowledged, last = random.Random(0), list[int](), 0
        for _ in range(options.kills):
            killer = threading.Timer(draw.uniform(0.05, 1), kill_all, [process])
            killer.start()
            found, last = post_until_killed(options.port, last + 1)
            killer.join()
            acknowledged += found
            process = start(file, options.port)
        from deep_interest.serving.events import SqliteEvents

        stored = {
            of.time for of in SqliteEvents(folder / "service/events.sqlite").of_user(1, after=0, limit=10**6)
        }
        process.send_signal(signal.SIGTERM)
        process.wait()
    line = {
        "bench": "serve_soak", "minutes": options.minutes, "capacity": measured, "rate": round(rate, 1), "candidates": options.candidates,
        "requests": len(load.seconds), "answers": load.answers, "p50_ms": round(1000 * float(np.median(load.seconds)), 2),
        "p99_ms": round(p99(load.seconds), 2), "replacements": options.replacements, "worker_kills": len(killed),
        "failed": len(load.failures), "failed_by_kill": of_kills, "failed_without_kill": sum(
            not any(-0.1 < moment - kill < LIMIT_AFTER_KILL for kill in killed) for moment, _ in load.failures
        ),
        "connections": CONNECTIONS, "mixed_answers": load.mixed, "memory_mb": list(memory.values()), "service_kills": options.kills,
        "acknowledged_events": len(acknowledged), "lost_events": len(set(acknowledged) - stored),
        "machine": this_machine(), "commit": this_commit(),
    }  # fmt: skip
    print(json.dumps(line))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
