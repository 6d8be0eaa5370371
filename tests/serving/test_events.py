"""The event store: order, limits, several processes, and processes that are killed."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from deep_interest.serving.events import Event, EventStoreError, SqliteEvents


@pytest.fixture
def store(tmp_path):
    store = SqliteEvents(tmp_path / "events.sqlite")
    yield store
    store.close()


def test_events_are_returned_from_oldest_to_newest(store):
    events = [
        Event("ann", 1, 5),
        Event("ann", 2, 3, {"action": "buy"}),
        Event("ann", 3, 5),
        Event("bob", 4, 1),
    ]
    store.add(events)
    assert store.of_user("ann", after=0, limit=10) == [events[1], events[0], events[2]]
    assert store.of_user("ann", after=3, limit=10) == [events[0], events[2]]
    assert store.of_user("ann", after=0, limit=2) == [events[0], events[2]]  # the newest
    assert store.of_user("eve", after=0, limit=10) == []


def test_numbers_and_strings_are_different_users(store):
    store.add([Event(7, 1, 1), Event("7", 2, 1)])
    assert [of.item for of in store.of_user(7, after=0, limit=9)] == [1]
    assert [of.item for of in store.of_user("7", after=0, limit=9)] == [2]


def test_quotes_and_other_characters_are_data(store):
    user = "x'; DROP TABLE events; --\x00\n\u2028ü"
    store.add([Event(user, user, 1, {user: user})])
    assert store.of_user(user, after=0, limit=9) == [Event(user, user, 1, {user: user})]


def test_either_all_events_are_stored_or_none(store):
    with pytest.raises(TypeError):
        store.add([Event("ann", 1, 1), Event("ann", {1}, 2)])
    assert store.of_user("ann", after=0, limit=9) == []


def test_old_events_can_be_deleted(store):
    store.add([Event("ann", item, item) for item in range(1, 6)])
    assert store.prune(3) == 3
    assert [of.item for of in store.of_user("ann", after=0, limit=9)] == [4, 5]


def test_threads_and_processes_share_a_file(store, tmp_path):
    threads = [
        threading.Thread(target=store.add, args=([Event("ann", number, number)],)) for number in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(SqliteEvents(tmp_path / "events.sqlite").of_user("ann", after=0, limit=99)) == 8


def test_a_file_that_is_no_database_is_an_error(tmp_path):
    (tmp_path / "events.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(
        EventStoreError, match=r"events.sqlite: the event store cannot be used \(file is not a database\)"
    ):
        SqliteEvents(tmp_path / "events.sqlite")


def test_a_table_that_is_missing_is_an_error(store, tmp_path):
    with sqlite3.connect(tmp_path / "events.sqlite") as connection:
        connection.execute("DROP TABLE events")
    with pytest.raises(EventStoreError, match="no such table"):
        store.of_user("ann", after=0, limit=1)


WRITER = """
import sys
from pathlib import Path
from deep_interest.serving.events import Event, SqliteEvents
store = SqliteEvents(Path(sys.argv[1]))
for number in range(1, 1_000_000):
    store.add([Event("ann", number, number)])
    print(number, flush=True)
"""


def test_an_acknowledged_event_survives_a_kill(tmp_path):
    path, acknowledged = tmp_path / "events.sqlite", 0
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged == 40:
                process.send_signal(signal.SIGKILL)
                break
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    stored = [of.item for of in SqliteEvents(path).of_user("ann", after=0, limit=10**6)]
    assert stored[:acknowledged] == list(range(1, acknowledged + 1))
    assert len(stored) <= acknowledged + 1  # one may have been stored and not yet acknowledged
