"""The Redis event store: its errors, its keys, and warnings about a server that could lose events."""

import re
import socket
import time

import pytest
from support.redis_server import redis_server

from deep_interest.serving.events import Event, EventStoreError
from deep_interest.serving.redis_events import RedisEvents

PASSWORD = "a-password-of-the-tests"
A, B = "host-a:/service", "host-b:/service"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
def protected(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("protected"), "--requirepass", PASSWORD) as server:
        yield server


@pytest.fixture
def restored(server):
    """The server, whose configuration is restored afterwards."""
    names = ("maxmemory", "appendonly", "appendfsync", "maxmemory-policy")
    before = [server.command("CONFIG GET", name)[name] for name in names]
    server.command("FLUSHALL")
    yield server
    for name, value in zip(names, before, strict=True):
        server.command("CONFIG", "SET", name, value)


def open_events(server, service=A, **options):
    return RedisEvents(server.url, experiment="shop.din", service=service, **options)


def times(store, user="ann"):
    return [event.time for event in store.of_user(user, after=0, limit=9)]


def test_experiments_do_not_share_events(server):
    store, other = open_events(server), RedisEvents(server.url, experiment="shop.dien", service=A)
    store.add([Event("ann", 1, 1)])
    assert other.of_user("ann", after=0, limit=9) == []
    assert other.prune(9) == 0
    assert store.prune(9) == 1


def test_deleting_leaves_other_keys_of_the_database(restored):
    restored.command("SET", "of-somebody-else", "1")
    store = open_events(restored)
    store.add([Event("ann", 1, 1)])
    store.prune(9)
    assert {key for key in restored.command("KEYS", "*")} == {
        b"of-somebody-else",
        b"deep-interest:{shop.din}:sequence",
        b"deep-interest:{shop.din}:log-end:host-a:/service",
    }


def test_events_that_another_service_needs_are_kept(restored):
    first, second = open_events(restored, A), open_events(restored, B)
    first.add([Event("ann", 1, end) for end in (50, 150, 250)])
    assert second.prune(100) == 1  # its newest day ends at 100
    assert first.prune(200) == 0  # the new days have arrived on this machine alone
    assert times(second) == [150, 250]
    assert second.prune(200) == 1
    assert times(second) == [250]


def test_a_service_that_restarts_has_one_log_end(restored):
    open_events(restored, A).prune(100)
    restarted = open_events(restored, A)
    restarted.add([Event("ann", 1, 150)])
    assert restarted.prune(200) == 1


def test_the_log_end_of_a_service_expires_after_30_days(restored):
    first, second = open_events(restored, A), open_events(restored, B)
    second.prune(100)
    key = f"deep-interest:{{shop.din}}:log-end:{B}"
    days = restored.command("TTL", key) / (24 * 3600)
    assert 29.9 < days <= 30
    restored.command("PEXPIRE", key, 1)
    time.sleep(0.01)
    first.add([Event("ann", 1, 150)])
    assert first.prune(200) == 1


def test_deleting_takes_one_round_trip_per_page_of_keys(restored):
    store = open_events(restored)
    store.add([Event(user, 1, 1) for user in range(2500)])
    before = restored.command("INFO", "stats")["total_reads_processed"]
    assert store.prune(9) == 2500
    reads = restored.command("INFO", "stats")["total_reads_processed"] - before
    assert reads < 100  # pages of about 1000 keys, and a pipeline is read in several parts


def test_the_arrival_counts_across_connections(server):
    first, second = open_events(server), open_events(server)
    first.add([Event("bob", 1, 5)])
    second.add([Event("bob", 2, 5)])
    first.add([Event("bob", 3, 5)])
    assert [of.item for of in second.of_user("bob", after=0, limit=2)] == [2, 3]


def test_a_server_that_is_not_reachable_is_an_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        EventStoreError, match=rf"^redis://127.0.0.1:{port}/0: .* cannot be reached .*--events$"
    ):
        RedisEvents(f"redis://127.0.0.1:{port}/0", experiment="shop.din", service=A)


def test_a_server_that_does_not_answer_is_an_error_in_time():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        with pytest.raises(EventStoreError, match="cannot be reached"):
            RedisEvents(url, experiment="shop.din", service=A, timeout=0.1)


@pytest.mark.parametrize("password", ["another", None])
def test_a_wrong_or_missing_password_is_an_error_that_does_not_show_it(protected, password):
    with pytest.raises(EventStoreError, match="refuses the user or the password") as raised:
        open_events(protected, password=password)
    assert "another" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_the_password_opens_a_protected_server(protected):
    store = open_events(protected, password=PASSWORD)
    store.add([Event("ann", 1, 1)])
    assert len(store.of_user("ann", after=0, limit=9)) == 1


def test_a_database_that_does_not_exist_is_an_error(server):
    with pytest.raises(EventStoreError, match=r"has no such database .* number at the end of --events"):
        RedisEvents(server.url.removesuffix("0") + "99", experiment="shop.din", service=A)


def test_a_full_memory_stores_no_event_of_a_request(restored):
    store = open_events(restored)
    store.add([Event("ann", 1, 1)])
    restored.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(EventStoreError, match="the memory of the Redis server is full"):
        store.add([Event("ann", 2, 2), Event("bob", 3, 3)])
    assert [of.item for of in store.of_user("ann", after=0, limit=9)] == [1]
    assert store.of_user("bob", after=0, limit=9) == []
    restored.command("CONFIG", "SET", "maxmemory", "0")
    store.add([Event("ann", 2, 2)])
    assert [of.item for of in store.of_user("ann", after=0, limit=9)] == [1, 2]


def test_a_key_of_another_program_is_an_error(restored):
    restored.command("SET", 'deep-interest:{shop.din}:user:"ann"', "1")
    with pytest.raises(EventStoreError, match=r"the Redis server refuses a command \(WRONGTYPE"):
        open_events(restored).of_user("ann", after=0, limit=9)


@pytest.mark.slow
def test_a_store_works_again_after_its_server_has_restarted(tmp_path):
    with redis_server(tmp_path) as server:
        store = open_events(server)
        store.add([Event("ann", 1, 1)])
        server.kill()
        with pytest.raises(EventStoreError, match="cannot be reached"):
            store.add([Event("ann", 2, 2)])
        server.start()
        store.add([Event("ann", 3, 3)])
        assert [of.item for of in store.of_user("ann", after=0, limit=9)] == [1, 3]


def test_a_server_that_writes_each_command_has_no_warning(restored):
    assert open_events(restored).durability_warnings() == []


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("appendonly", "no", r"does not write each command to a file \(appendonly no\).*Set appendonly yes"),
        (
            "appendfsync",
            "everysec",
            r"does not wait for its disk \(appendfsync everysec\).*Set appendfsync always",
        ),
        ("maxmemory-policy", "allkeys-lru", r"deletes events when its memory is full .*noeviction"),
    ],
)
def test_a_server_that_could_lose_events_has_a_warning(restored, name, value, warning):
    restored.command("CONFIG", "SET", name, value)
    (shown,) = open_events(restored).durability_warnings()
    assert re.search(warning, shown)


def test_a_hidden_configuration_has_a_warning(protected):
    words = ("ACL", "SETUSER", "service", "on", f">{PASSWORD}", "~*", "+@all", "-config")
    protected.command(*words)
    url = protected.url.replace("//", "//service@")
    store = RedisEvents(url, experiment="shop.din", service=A, password=PASSWORD)
    (warning,) = store.durability_warnings()
    assert "does not show its configuration" in warning
    assert PASSWORD not in warning
