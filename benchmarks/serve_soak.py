"""The service under load while everything changes: ``python benchmarks/serve_soak.py [--minutes 10]``; prints one JSON line.

Two workers serve requests at an even rate. Meanwhile the version is replaced ten times and a worker is killed five times. Every answer
is compared with the scores of the version that it names, so that an answer from two versions would be found. Events are
posted all the time; afterwards the service is killed with SIGKILL, started again, and asked for all acknowledged events,
``--kills`` times.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
from machine import this_commit, this_machine
from serve import bodies, p99, wait_for, write_service

DISTINCT = 32  # requests, whose scores are known for both versions


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


def post_events(port: int, first: int, count: int) -> int:
    """Post events one by one and return the number of those that were acknowledged."""
    for number in range(first, first + count):
        event = {"events": [{"user": 1, "item": 1 + number % 1000, "time": number}]}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/events", json.dumps(event).encode())
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert json.load(answer) == {"accepted": 1}
        except OSError:
            return number - first
    return count


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
) -> tuple[list[float], list[int]]:
    """Replace the version and kill workers at even intervals; return the moments of the kills, and memory in MB."""
    from deep_interest.service.deployment import Serving

    steps, killed, memory = max(replacements, 1), [], []
    for step in range(steps):
        await asyncio.sleep(seconds / (steps + 1))
        Serving(primary=f"v{1 + (step + 1) % 2}.2024-01-01").write(wanted)
        memory.append(sum(of.memory_info().rss for of in workers(process)) >> 20)
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
        "--rate",
        type=float,
        default=100,
        help="requests per second; 80 %% of the capacity by benchmarks/serve.py",
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

        async def under_load() -> tuple[list[float], list[int]]:
            seconds = 60 * options.minutes
            _, changes = await asyncio.gather(
                load.run(options.rate, seconds, 16),
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
        unexplained = [of for of in load.failures if not any(-0.1 < of[0] - moment < 2 for moment in killed)]
        acknowledged, lost = 0, 0
        for _ in range(options.kills):
            acknowledged += post_events(options.port, acknowledged + 1, 25)
            kill_all(process)
            process = start(file, options.port)
        from deep_interest.serving.events import SqliteEvents

        stored = {
            of.time for of in SqliteEvents(folder / "service/events.sqlite").of_user(1, after=0, limit=10**6)
        }
        lost = len(set(range(1, acknowledged + 1)) - stored)
        process.send_signal(signal.SIGTERM)
        process.wait()
    line = {
        "bench": "serve_soak", "minutes": options.minutes, "rate": options.rate, "candidates": options.candidates,
        "requests": len(load.seconds), "answers": load.answers, "p50_ms": round(1000 * float(np.median(load.seconds)), 2),
        "p99_ms": round(p99(load.seconds), 2), "replacements": options.replacements, "worker_kills": len(killed),
        "failed": len(load.failures), "failed_without_kill": len(unexplained), "mixed_answers": load.mixed,
        "memory_mb": memory, "service_kills": options.kills, "acknowledged_events": acknowledged, "lost_events": lost,
        "machine": this_machine(), "commit": this_commit(),
    }  # fmt: skip
    print(json.dumps(line))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
