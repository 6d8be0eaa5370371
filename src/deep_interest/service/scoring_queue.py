"""A bounded queue in front of the scoring threads, each of which scores the requests that wait together.

When it is full, a request is refused at once instead of waiting ever longer. Threads that score share the cores among their kernels.

There are half as many scoring threads as cores, because only one of them can hold the interpreter's lock: on two cores, one thread whose
kernels use both scores more requests per second than two threads that wait for each other's lock.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deep_interest.ops.runtime.parallel import set_kernel_threads
from deep_interest.service.settings import ServiceSettings, available_cores
from deep_interest.serving.ranker import Features, Ranker

GPU_CANDIDATES = (
    4096  # of the requests that a GPU scores together; their intermediate results must fit its memory
)


class QueueFullError(RuntimeError):
    """Raised if as many requests wait as may wait."""


@dataclass(frozen=True)
class Prepared:
    """A request that can be scored.

    Attributes:
        ranker: version that scores it.
        features: its features.
        finish: makes the result from the click probabilities ``(C,)``.
    """

    ranker: Ranker
    features: Features
    finish: Callable[[np.ndarray], Any]


Task = Callable[[], Any]
"""Returns the result of a request, or `Prepared` if it must be scored first."""


class ScoringQueue:
    """Runs requests in threads of its own, so that the event loop stays free.

    Args:
        limit: number of requests that may wait or run.
        threads: number of threads.
        cores: number of cores that the kernels of all threads use.
        most_candidates: requests are scored together as long as they have at most so many candidates.
    """

    def __init__(self, limit: int, *, threads: int = 1, cores: int = 1, most_candidates: int = 512) -> None:
        self.limit, self._cores, self._most = limit, cores, most_candidates
        self._pending, self._busy, self._lock = 0, 0, threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[Task, Future[Any]] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"scoring-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pending(self) -> int:
        """Number of requests that wait or run."""
        return self._pending

    async def run(self, task: Task) -> Any:
        """Run a request and return its result.

        Raises:
            QueueFullError: too many requests wait.
        """
        with self._lock:
            if self._pending >= self.limit:
                raise QueueFullError
            self._pending += 1
        future: Future[Any] = Future()
        future.add_done_callback(self._done)
        self._waiting.put((task, future))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the threads after the requests that wait."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        set_kernel_threads(None)

    def _done(self, _: object) -> None:
        with self._lock:
            self._pending -= 1

    def _share_cores(self, change: int) -> None:
        """Count the threads that score; each uses its share of the cores from the next kernel on."""
        with self._lock:
            self._busy += change
            if self._busy:
                set_kernel_threads(max(1, self._cores // self._busy))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            self._share_cores(1)
            jobs, size, ends = [], 0, False
            while True:
                job = _prepare(*item)
                if job is None:
                    break  # whatever needs no score must not keep the others waiting
                jobs.append(job)
                size += job[0].features.size
                if size >= self._most:
                    break
                try:
                    following = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ends = True
                    break
                item = following
            _score(jobs)
            self._share_cores(-1)
            if ends:
                return


def make_queue(settings: ServiceSettings, device: torch.device) -> ScoringQueue:
    """Return the queue of a worker.

    A GPU takes hardly longer for several requests than for one: all that wait are scored together, by one thread.
    """
    if device.type != "cpu":
        return ScoringQueue(settings.queue, most_candidates=GPU_CANDIDATES)
    cores = settings.threads or max(1, available_cores() // settings.workers)
    return ScoringQueue(settings.queue, threads=max(1, cores // 2), cores=cores)


def _prepare(task: Task, future: "Future[Any]") -> tuple[Prepared, "Future[Any]"] | None:
    """Run a task; None if it has its result already, or was cancelled."""
    if not future.set_running_or_notify_cancel():
        return None
    try:
        result = task()
    except BaseException as error:  # belongs to the request
        future.set_exception(error)
        return None
    if isinstance(result, Prepared):
        return result, future
    future.set_result(result)
    return None


def _score(jobs: Sequence[tuple[Prepared, "Future[Any]"]]) -> None:
    """Score requests, those of one version together, and set their results."""
    by_ranker: dict[int, list[tuple[Prepared, Future[Any]]]] = {}
    for job in jobs:
        by_ranker.setdefault(id(job[0].ranker), []).append(job)
    for group in by_ranker.values():
        try:
            scores = group[0][0].ranker.score_many([prepared.features for prepared, _ in group])
        except BaseException as error:
            if len(group) > 1:  # one of them may be the reason
                for job in group:
                    _score([job])
            else:
                group[0][1].set_exception(error)
            continue
        for (prepared, future), ctr in zip(group, scores, strict=True):
            try:
                future.set_result(prepared.finish(ctr))
            except BaseException as error:
                future.set_exception(error)
