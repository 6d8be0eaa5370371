"""Served scores next to batch scores for 10,000 requests of all kinds: ``python benchmarks/parity.py simulated.din``; prints one JSON line.

The champion of a model is served by ``deep-interest serve … --log-requests`` and ranks random candidates: for known and unknown users and
users without an id, with unknown and repeated items, empty histories, histories and times of their own, and context values per
candidate, known or not. Every 20th request is preceded by an event. Then the code of ``kedro run --pipelines=parity…`` scores the log
again (``largest_difference``); requests whose history is in the log alone are also scored from the log, without the features
that the service has logged (``largest_difference_from_log``). The exit status is 1 if a difference is above 10⁻⁶.
"""

import argparse
import collections
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from machine import this_commit, this_machine
from serve import wait_for

if TYPE_CHECKING:
    from deep_interest.logs.tables import CanonicalTables

PROJECT = Path(__file__).parents[1]
EVENTS_EVERY = 20
USERS = {"known": 0.7, "unknown": 0.15, "without id": 0.15}
HISTORIES = {"of the log": 0.7, "empty": 0.1, "of the request": 0.1, "of the log, at a time": 0.1}


class Requests:
    """Draws requests and events.

    Args:
        tables: the current days, with the ids and the values of the context.
        context: names of the context features.
        seed: seed of the draws.
    """

    def __init__(self, tables: "CanonicalTables", context: tuple[str, ...], seed: int) -> None:
        self._draw = random.Random(seed)
        self._users = tables.behaviors["user"].unique().tolist()
        self._items = tables.items["item"].tolist()
        self._values = {name: tables.shown[name].unique().tolist() for name in context}
        self.log_end = int(tables.behaviors["time"].max())
        self.kinds: collections.Counter[str] = collections.Counter()

    def request(self) -> dict[str, Any]:
        """Return a ranking request."""
        draw, size = self._draw, self._draw.randint(1, 40)
        items = draw.choices(self._items, k=size)
        request: dict[str, Any] = {}
        user = self._kind("user", USERS)
        if user != "without id":
            request["user"] = draw.choice(self._users) if user == "known" else self._unknown(self._users)
        if draw.random() < 0.3:
            self.kinds["unknown items"] += 1
            items[draw.randrange(size)] = self._unknown(self._items)
        if draw.random() < 0.3:
            items.append(items[0])
        self.kinds["repeated items"] += len(set(items)) < len(items)
        history = self._kind("history", HISTORIES)
        if history == "empty":
            request["history"] = []
        elif history == "of the request":
            behaviors = draw.choices(self._items, k=draw.randint(1, 120))
            request["history"] = [*behaviors, self._unknown(self._items)]
        elif history == "of the log, at a time":
            request["time"] = self.log_end + draw.randint(1, 10**6)
        request["candidates"] = [{"item": item, "bid": draw.uniform(0.1, 2)} for item in items]
        request["context"] = {name: self._context(name, len(items)) for name in self._values}
        return request

    def event(self, index: int) -> dict[str, Any]:
        """Return an event after the end of the log."""
        user, item = self._draw.choice(self._users), self._draw.choice(self._items)
        return {"user": user, "item": item, "time": self.log_end + 1 + index}

    def _kind(self, name: str, shares: dict[str, float]) -> str:
        (kind,) = self._draw.choices(list(shares), list(shares.values()))
        self.kinds[f"{name} {kind}"] += 1
        return kind

    def _context(self, name: str, size: int) -> Any:
        values = self._values[name]
        chosen = [*self._draw.choices(values, k=size - 1), self._unknown(values)]
        return chosen if self._draw.random() < 0.2 else chosen[0]

    def _unknown(self, known: list[Any]) -> Any:
        unknown_id = self._draw.randint(10**9, 10**12)
        return f"unknown-{unknown_id}" if isinstance(known[0], str) else unknown_id


def send(port: int, drawn: Requests, count: int) -> set[Any]:
    """Send events and requests, and return the users with events."""
    with_events = set()
    with requests.Session() as session:
        for index in range(count):
            if index % EVENTS_EVERY == 0:
                event = drawn.event(index)
                with_events.add(event["user"])
                session.post(f"http://127.0.0.1:{port}/events", json={"events": [event]}).raise_for_status()
            answer = session.post(f"http://127.0.0.1:{port}/rank", json=drawn.request())
            assert answer.status_code == 200, answer.text
    return with_events


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def serve_and_send(experiment: str, env: str | None, folder: Path, drawn: Requests, count: int) -> set[Any]:
    """Serve the champion, send the requests, and end the service."""
    port = free_port()
    command = [sys.executable, "-m", "deep_interest.commands.main", "serve", experiment, f"--port={port}"]
    command += [f"--folder={folder}", "--log-requests", "--no-access-log", *([f"--env={env}"] if env else [])]
    with subprocess.Popen(command, cwd=PROJECT, stdout=sys.stderr) as process:
        try:
            wait_for(port)
            return send(port, drawn, count)
        finally:
            process.send_signal(signal.SIGTERM)


def main() -> int:
    """Serve, send, compare and print the line."""
    import numpy as np

    from deep_interest.commands.session import open_project
    from deep_interest.pipelines.parameters import DatasetParameters
    from deep_interest.pipelines.parity.nodes import make_compare
    from deep_interest.pipelines.retrain.nodes import reading_of
    from deep_interest.retraining.days import list_days, read_days
    from deep_interest.retraining.parameters import RetrainingParameters
    from deep_interest.retraining.parity import TOLERANCE, read_request_log
    from deep_interest.retraining.parity_gate import CurrentVersion, batch_scores

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", metavar="DATASET.MODEL", help="a model with a champion")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--env", help="configuration environment")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dataset, model = options.experiment.split(".")
    with open_project(options.env, PROJECT) as context, tempfile.TemporaryDirectory() as name:
        parameters = context.config_loader["parameters"]
        settings = DatasetParameters.model_validate(parameters["datasets"][dataset])
        retraining = RetrainingParameters.model_validate(parameters["retraining"])
        registry = context.catalog.load(f"{options.experiment}.registry")
        days = context.catalog.load(f"{dataset}.days")
        tables = read_days(days, list_days(days), reading_of(settings))
        drawn = Requests(tables, settings.features.context, options.seed)
        folder = Path(name)
        with_events = serve_and_send(options.experiment, options.env, folder, drawn, options.requests)
        parity = make_compare(dataset, model)(folder / "requests", days, registry, settings, retraining)
        champion = CurrentVersion(registry.champion(), tables, settings.features)
        in_log = [
            served
            for served in read_request_log(folder / "requests")
            if not {"history", "time"} & set(served.request) and served.request.get("user") not in with_events
        ]
        scores = batch_scores(in_log, champion)
        differences = [
            np.abs(np.asarray(served.ctr) - ctr).max() for served, ctr in zip(in_log, scores, strict=True)
        ]
    largest = float(np.max(differences))
    line = {
        "bench": "parity", "case": options.experiment, "requests": parity["requests"], "candidates": parity["candidates"],
        "largest_difference": parity["largest_difference"], "requests_from_log": len(in_log), "largest_difference_from_log": largest,
        "other_codes": parity["other_candidate_codes"] + parity["other_context_codes"], "tolerance": TOLERANCE,
        "passed": parity["passed"] and largest <= TOLERANCE, "kinds": dict(sorted(drawn.kinds.items())), "events": -(-options.requests // EVENTS_EVERY),
        "version": parity["versions"], "machine": this_machine(), "commit": this_commit(),
    }  # fmt: skip
    print(json.dumps(line), flush=True)
    return 0 if line["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
