"""Prometheus metrics of the service."""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from deep_interest.models.config import Precision

_FLOAT32 = Precision()
_BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1.0)
MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of prometheus_client: folder in which the workers share their metrics."""


class Metrics:
    """Counters of one worker; `exposition` adds up those of all workers.

    Args:
        experiment: ``DATASET.MODEL``, a label of the version.
    """

    def __init__(self, experiment: str) -> None:
        self.registry, self._experiment = CollectorRegistry(), experiment
        self.requests = Counter(
            "deep_interest_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "deep_interest_request_seconds", "Seconds from the request to its response.", ["route"], buckets=_BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self.candidates = Counter("deep_interest_candidates", "Scored candidates.", registry=self.registry)
        self.unknown_items = Counter(
            "deep_interest_unknown_items", "Candidates that are not in the catalogue.", registry=self.registry
        )
        self.unknown_users = Counter(
            "deep_interest_unknown_users",
            "Rankings for users of whom nothing is known.",
            registry=self.registry,
        )
        self.unlogged = Counter(
            "deep_interest_unlogged_rankings",
            "Rankings that could not be written to the request log.",
            registry=self.registry,
        )
        self.events = Counter("deep_interest_events", "Stored events.", registry=self.registry)
        self.queue = Gauge(
            "deep_interest_queue",
            "Requests that wait or are scored.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.version = Gauge(
            "deep_interest_version_info", "1 for the version that serves, with its precision.",
            ["experiment", "version", "tables", "attention"], registry=self.registry,
            multiprocess_mode="livemostrecent",
        )  # fmt: skip
        self._served: tuple[str, str, str] | None = None

    def serves(self, version: str, precision: Precision = _FLOAT32) -> None:
        """Set the version that serves, and its precision."""
        serves = version, precision.tables, precision.attention
        if serves != self._served:
            if self._served:
                self.version.labels(self._experiment, *self._served).set(0)
            self._served = serves
            self.version.labels(self._experiment, *self._served).set(1)

    def exposition(self) -> bytes:
        """Return the metrics of all workers in Prometheus' text format."""
        if MULTIPROCESS_FOLDER not in os.environ:
            return generate_latest(self.registry)
        _forget_dead_workers(Path(os.environ[MULTIPROCESS_FOLDER]))
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)


def _forget_dead_workers(folder: Path) -> None:
    """Remove the gauges of workers that have ended."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid)
        except PermissionError:  # a process of another user: not a worker
            mark_process_dead(pid)


def clear_shared_metrics(folder: Path) -> None:
    """Make the folder that workers share, without the metrics of an earlier service, and name it to the workers."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.db"):
        file.unlink()
    os.environ[MULTIPROCESS_FOLDER] = str(folder)
