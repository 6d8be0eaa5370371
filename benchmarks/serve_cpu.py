"""CPU time per request of the ranking service: ``python benchmarks/serve_cpu.py [--quick]``; one JSON line per case.

The services and requests of ``serve.py``. ``one_client_cpu_ms`` is the CPU time of the service (all its processes, user and system) per request
of a client that sends the next request when the last one is answered; ``busy_cpu_ms`` the same while ``--connections`` connections
always have a request waiting, which bounds the requests per second. ``client_cpu_ms`` is that of the load generator in the busy run. CPU time
hardly depends on what else runs on the machine, so that two versions of the code can be compared where latencies cannot be measured:

    PYTHONPATH=OTHER/src python benchmarks/serve_cpu.py --models din
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
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from machine import this_commit, this_machine
from serve import CANDIDATES, MODELS, bodies, cases, one_client, saturated, wait_for, write_service

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its descendants that run, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (
        int(fields[11]) + int(fields[12])
    ) / _TICKS  # utime and stime, after the name of the program and the state
    children = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return own + sum(cpu_seconds(int(child)) for thread in children for child in thread)


def cpu_per_request(pid: int, run: Callable[[], Coroutine[Any, Any, int]]) -> tuple[float, float]:
    """Return the CPU time per request of a service and of this process, in ms; ``run`` returns the number of requests."""
    service, own = cpu_seconds(pid), time.process_time()
    count = asyncio.run(run())
    return 1000 * (cpu_seconds(pid) - service) / count, 1000 * (time.process_time() - own) / count


def measure(options: argparse.Namespace, model: str, attention: str, folder: Path) -> None:
    """Start the service of a model and print a line for each number of candidates."""
    key, dim = MODELS[model]
    settings = {"port": options.port, "threads": options.threads, "queue": 256, "access_log": False}
    file = write_service(folder, key, dim, settings, attention=attention)
    serve = str(Path(__file__).with_name("serve.py"))
    with subprocess.Popen([sys.executable, serve, "--serve", str(file)]) as process:
        try:
            wait_for(options.port)
            for candidates in options.candidates:
                line = {
                    "bench": "serve_cpu", "case": f"history 100, {candidates} candidates", "model": model,
                    "attention": attention, **measure_case(options, process.pid, candidates),
                    "threads": options.threads, "connections": options.connections, "machine": this_machine(), "commit": this_commit(),
                }  # fmt: skip
                print(json.dumps(line), flush=True)
        finally:
            process.send_signal(signal.SIGTERM)


def measure_case(options: argparse.Namespace, pid: int, candidates: int) -> dict[str, float]:
    """Return the CPU times of a case in ms, each the least of ``--rounds`` rounds: what else runs can only add to them."""
    requests, count = bodies(candidates), options.requests

    async def alone() -> int:
        return len(await one_client(options.port, requests, count)) + 50  # with those that warm up

    async def busy() -> int:
        return await saturated(options.port, requests, count=count, connections=options.connections)

    rounds = [(cpu_per_request(pid, alone), cpu_per_request(pid, busy)) for _ in range(options.rounds)]
    least = {
        "one_client_cpu_ms": min(first[0] for first, _ in rounds),
        "busy_cpu_ms": min(second[0] for _, second in rounds),
        "client_cpu_ms": min(second[1] for _, second in rounds),
    }
    return {name: round(ms, 3) for name, ms in least.items()}


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument(
        "--attention", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"]
    )
    parser.add_argument("--candidates", nargs="+", type=int, default=list(CANDIDATES))
    parser.add_argument("--threads", type=int, help="scoring threads; as many as cores by default")
    parser.add_argument("--connections", type=int, default=4, help="of the busy runs")
    parser.add_argument("--port", type=int, default=8098)
    options = parser.parse_args()
    options.requests, options.rounds = (250, 2) if options.quick else (500, 5)
    for model, attention in cases(options.models, options.attention):
        with tempfile.TemporaryDirectory() as folder:
            measure(options, model, attention, Path(folder))


if __name__ == "__main__":
    main()
    os._exit(0)
