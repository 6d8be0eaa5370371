"""The event stores, SQLite and Redis: order, limits, several processes, and processes that are killed."""

import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from support.redis_server import redis_server

from deep_interest.serving.events import Event, EventStoreError, SqliteEvents
from deep_interest.serving.redis_events import RedisEvents

EXPERIMENT = "shop.din"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["sqlite", "redis"])
def open_store(request, tmp_path):
    """A function that opens the same store again, as another process does."""
    if request.param == "sqlite":
        return lambda: SqliteEvents(tmp_path / "events.sqlite")
    server = request.getfixturevalue("server")
    server.command("FLUSHALL")
    return lambda: RedisEvents(server.url, experiment=EXPERIMENT, service="host:/folder")


@pytest.fixture
def store(open_store):
    store = open_store()
    yield store
    store.close()


@pytest.fixture
def sqlite(tmp_path):
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
    store.add([Event(user, item, item) for item in range(1, 6) for user in ("ann", 7)])
    assert store.prune(3) == 6
    for user in ("ann", 7):
        assert [of.item for of in store.of_user(user, after=0, limit=9)] == [4, 5]
    assert store.prune(3) == 0


@pytest.mark.parametrize("time", [-(2**61), -1, 0, 1_711_929_600_123_456_789, 2**61])
def test_every_time_is_exact(store, time):
    store.add([Event("ann", number, time + number) for number in (-1, 0, 1)])
    assert [of.time for of in store.of_user("ann", after=-(2**62), limit=9)] == [time - 1, time, time + 1]
    assert [of.time for of in store.of_user("ann", after=time, limit=9)] == [time + 1]
    assert store.prune(time) == 2


def test_the_same_event_twice_is_two_events(store):
    event = Event("ann", 1, 5)
    store.add([event, event])
    store.add([event])
    assert store.of_user("ann", after=0, limit=9) == [event] * 3


def test_no_events_can_be_stored(store):
    store.add([])
    assert store.of_user("ann", after=0, limit=9) == []


def test_threads_and_processes_share_a_store(store, open_store):
    threads = [
        threading.Thread(target=store.add, args=([Event("ann", number, number)],)) for number in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other = open_store()
    assert len(other.of_user("ann", after=0, limit=99)) == 8
    other.close()


def test_a_file_that_is_no_database_is_an_error(tmp_path):
    (tmp_path / "events.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(
        EventStoreError, match=r"events.sqlite: the event store cannot be used \(file is not a database\)"
    ):
        SqliteEvents(tmp_path / "events.sqlite")


def test_a_table_that_is_missing_is_an_error(sqlite, tmp_path):
    with sqlite3.connect(tmp_path / "events.sqlite") as connection:
        connection.execute("DROP TABLE events")
    with pytest.raises(EventStoreError, match="no such table"):
        sqlite.of_user("ann", after=0, limit=1)


WRITER = """
import sys
from pathlib import Path
from deep_interest.serving.events import Event, SqliteEvents
from deep_interest.serving.redis_events import RedisEvents
kind, where = sys.argv[1:]
store = SqliteEvents(Path(where)) if kind == "sqlite" else RedisEvents(where, experiment="shop.din", service="host:/folder")
for number in range(1, 1_000_000):
    store.add([Event("ann", number, number)])
    print(number, flush=True)
"""


def acknowledged_before(kill, *arguments):
    """Store events in a process and return how many of them were acknowledged when something was killed."""
    command = [sys.executable, "-c", WRITER, *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
    ) as process:
        for line in process.stdout:
            if int(line) == 40:
                kill(process)
                break
        return max([40, *(int(line) for line in process.stdout if line.endswith("\n"))])


def check_stored(store, acknowledged):
    stored = [of.item for of in store.of_user("ann", after=0, limit=10**6)]
    assert stored[:acknowledged] == list(range(1, acknowledged + 1))
    assert len(stored) <= acknowledged + 1  # one may have been stored and not yet acknowledged


def test_an_acknowledged_event_survives_a_kill(tmp_path):
    path = tmp_path / "events.sqlite"
    acknowledged = acknowledged_before(lambda process: process.kill(), "sqlite", path)
    check_stored(SqliteEvents(path), acknowledged)


@pytest.mark.slow
def test_an_acknowledged_event_survives_a_kill_of_the_redis_server(tmp_path):
    with redis_server(tmp_path) as server:
        acknowledged = acknowledged_before(lambda _: server.kill(), "redis", server.url)
        server.start()
        check_stored(RedisEvents(server.url, experiment=EXPERIMENT, service="host:/folder"), acknowledged)
