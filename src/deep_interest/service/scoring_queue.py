"""A bounded queue in front of one scoring thread, which scores the requests that wait together.

When it is full, a request is refused at once instead of waiting ever longer.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_interest.serving.ranker import Features, Ranker


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
    """Runs requests in a thread of its own, so that the event loop stays free.

    Args:
        limit: number of requests that may wait or run.
        most_candidates: requests are scored together as long as they have at most so many candidates.
    """

    def __init__(self, limit: int, *, most_candidates: int = 512) -> None:
        self.limit, self._most = limit, most_candidates
        self._pending, self._lock = 0, threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[Task, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="scoring", daemon=True)
        self._thread.start()

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
        """End the thread after the requests that wait."""
        self._waiting.put(None)
        self._thread.join()

    def _done(self, _: object) -> None:
        with self._lock:
            self._pending -= 1

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            jobs, size, ends = [], 0, False
            while True:
                if job := _prepare(*item):
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
            if ends:
                return


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
            for _, future in group:
                future.set_exception(error)
            continue
        for (prepared, future), ctr in zip(group, scores, strict=True):
            try:
                future.set_result(prepared.finish(ctr))
            except BaseException as error:
                future.set_exception(error)
