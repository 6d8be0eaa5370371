"""A bounded queue in front of one scoring thread: when it is full, a request is refused at once instead of waiting ever longer."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class QueueFullError(RuntimeError):
    """Raised if as many requests wait as may wait."""


class ScoringQueue:
    """Runs functions one after the other in a thread of its own, so that the event loop stays free.

    Args:
        limit: number of functions that may wait or run.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self._pending, self._lock = limit, 0, threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")

    @property
    def pending(self) -> int:
        """Number of functions that wait or run."""
        return self._pending

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function and return its result.

        Raises:
            QueueFullError: too many functions wait.
        """
        with self._lock:
            if self._pending >= self.limit:
                raise QueueFullError
            self._pending += 1
        future = self._thread.submit(function)
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Wait for the running function and cancel those that wait."""
        self._thread.shutdown(cancel_futures=True)

    def _done(self, _: object) -> None:
        with self._lock:
            self._pending -= 1
