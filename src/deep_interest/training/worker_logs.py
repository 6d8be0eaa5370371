"""Log records of worker processes, shown by the process that started them: in its format, each record once."""

import logging
import threading
import time
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.synchronize import Lock
from typing import NamedTuple


class LogPipe(NamedTuple):
    """The end of a pipe to which all workers write their records.

    Attributes:
        connection: the end of the pipe.
        lock: lock of the writers.
    """

    connection: Connection
    lock: Lock


class WorkerHandler(QueueHandler):
    """Handler of a worker: sends every record to the parent process before it returns."""

    queue: LogPipe  # type: ignore[assignment]

    def enqueue(self, record: logging.LogRecord) -> None:
        with self.queue.lock:
            self.queue.connection.send(record)


def send_records(pipe: LogPipe) -> None:
    """Send the records of this process to its parent, which shows them, and nowhere else.

    Args:
        pipe: pipe of the parent's `LogRelay`.
    """
    for name in (None, "deep_interest"):  # handlers that the main module's imports have configured
        handlers = logging.getLogger(name).handlers
        while handlers:
            handlers.pop().close()
    logging.getLogger().addHandler(WorkerHandler(pipe))  # type: ignore[arg-type]


class LogRelay:
    """Hands the records of workers to the loggers of this process, in a thread.

    Of records with the attribute ``once``, only the first with the same message is shown until `flush` is called.

    Args:
        context: context of the workers.

    Attributes:
        pipe: what the workers write to.
    """

    def __init__(self, context: BaseContext) -> None:
        self._reader, writer = context.Pipe(duplex=False)
        self.pipe = LogPipe(writer, context.Lock())
        self._busy = threading.Lock()
        self._shown: set[str] = set()
        threading.Thread(target=self._relay, daemon=True).start()

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all records that workers have written are shown.

        Args:
            timeout: seconds after which to give up, as when a killed worker has left half a record.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._busy.acquire(timeout=timeout):
                with_more = self._reader.poll()
                self._busy.release()
                if not with_more:
                    break
            time.sleep(0.001)
        self._shown.clear()

    def _relay(self) -> None:
        while True:
            self._reader.poll(None)
            with self._busy:
                try:
                    record = self._reader.recv()
                except (
                    Exception
                ):  # a killed worker has left half a record; the next workers have another pipe
                    return
                self._show(record)

    def _show(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if getattr(record, "once", False) and message in self._shown:
            return
        self._shown.add(message)
        target = logging.getLogger(record.name)
        if target.isEnabledFor(record.levelno):
            target.handle(record)
