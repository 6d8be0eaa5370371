"""Behaviours that happened after the log ends: an embedded store that several processes share, SQLite with a write-ahead log."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from deep_interest.errors import InputError

Id = int | str
"""Id of a user or item, as in the source."""


@dataclass(frozen=True)
class Event:
    """A behaviour of a user.

    Attributes:
        user, item: ids, as in the source.
        time: time in the unit of the log.
        columns: what happened: values of the behaviour's own columns.
    """

    user: Id
    item: Id
    time: int
    columns: Mapping[str, Any] = field(default_factory=dict)


class EventStoreError(InputError):
    """Raised if events can be neither stored nor read: the disk is full, a file is damaged, or a server does not answer."""


class EventStore(Protocol):
    """Events by user. An event is on disk, or on the server, when `add` returns."""

    def add(self, events: Sequence[Event]) -> None:
        """Store events; either all of them or, with an error, none."""

    def of_user(self, user: Id, *, after: int, limit: int) -> list[Event]:
        """Return a user's newest events later than a time, from oldest to newest; of equal times in the order of arrival."""

    def prune(self, until: int) -> int:
        """Delete the events up to the log end of this service, unless another service still needs them, and return their number."""

    def close(self) -> None:
        """Close the connection."""


class SqliteEvents:
    """Events in a SQLite database; processes and threads may share the file.

    ``synchronous`` is FULL: a transaction is on disk when it ends, so that an acknowledged event survives a crash of the process
    and of the machine.

    Args:
        path: file of the database; created when it does not exist.

    Raises:
        EventStoreError: the file is not such a database, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._errors(), self._connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, user TEXT NOT NULL, time INTEGER NOT NULL, "
                "item TEXT NOT NULL, columns TEXT NOT NULL)"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS events_of_user ON events (user, time, id)")

    def add(self, events: Sequence[Event]) -> None:
        """Store events in one transaction.

        Raises:
            EventStoreError: the disk is full, or the file is damaged.
        """
        rows = [
            (json.dumps(event.user), event.time, json.dumps(event.item), json.dumps(dict(event.columns)))
            for event in events
        ]
        with self._errors(), self._connection() as connection:
            connection.executemany("INSERT INTO events (user, time, item, columns) VALUES (?, ?, ?, ?)", rows)

    def of_user(self, user: Id, *, after: int, limit: int) -> list[Event]:
        """Return a user's newest events later than ``after``, at most ``limit``, from oldest to newest."""
        with self._errors():
            rows = (
                self._connection()
                .execute(
                    "SELECT time, item, columns FROM events WHERE user = ? AND time > ? ORDER BY time DESC, id DESC LIMIT ?",
                    (json.dumps(user), after, limit),
                )
                .fetchall()
            )
        return [
            Event(user, json.loads(item), time, json.loads(columns)) for time, item, columns in reversed(rows)
        ]

    def prune(self, until: int) -> int:
        """Delete the events up to a time."""
        with self._errors(), self._connection() as connection:
            return connection.execute("DELETE FROM events WHERE time <= ?", (until,)).rowcount

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            del self._local.connection

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of this thread."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._path, timeout=5)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise EventStoreError(
                f"{self._path}: the event store cannot be used ({error}); free disk space, or restore the file from a backup"
            ) from error
