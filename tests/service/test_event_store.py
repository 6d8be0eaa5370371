"""Where the service has its events: SQLite in its folder, or a Redis server with a password that no file has."""

import logging
import socket
import sys

import pytest
from support.redis_server import redis_server
from support.service import LOG_END, make_settings, prepared, running

from deep_interest.errors import InputError
from deep_interest.service.clean_up import clean_up
from deep_interest.service.deployment import Serving
from deep_interest.service.event_store import (
    check_address,
    check_events,
    open_events,
    read_password,
    service_id,
)
from deep_interest.service.settings import (
    EVENTS_PASSWORD_VARIABLE,
    TOKEN_VARIABLE,
    VARIABLE,
    settings_of_worker,
)
from deep_interest.service.supervisor import run_service
from deep_interest.serving.events import Event, EventStoreError

PASSWORD = "a-password-of-the-tests"
TOKEN = "a-token-of-the-tests"


class NoWorkers:
    """In place of the worker processes: the service stops at once."""

    def __init__(self, config, sockets):
        pass

    def run(self):
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis"), "--requirepass", PASSWORD) as server:
        yield server


@pytest.fixture
def options(server):
    """Options of a service with this server."""
    server.command("FLUSHALL")
    return {"events": server.url, "events_password": PASSWORD}


@pytest.mark.slow
def test_services_on_two_machines_see_the_events_of_each_other(tmp_path, options):
    first, second = (prepared(tmp_path / name, **options) for name in ("a", "b"))
    alone = prepared(tmp_path / "c")
    event = {"user": "ann", "item": 15, "time": LOG_END + 1, "columns": {"action": "buy"}}
    with running(first) as client, running(second) as other, running(alone) as sqlite:
        before = other.ctr()
        assert client.post("/events", {"events": [event]}).json() == {"accepted": 1}
        assert other.ctr() != before
        assert sqlite.ctr() == before
        sqlite.post("/events", {"events": [event]})
        assert other.ctr() == sqlite.ctr()
    assert not first.database.exists()


@pytest.mark.slow
def test_a_server_that_stops_is_a_503_and_not_a_hang(tmp_path):
    with redis_server(tmp_path / "redis") as server:
        with running(prepared(tmp_path / "service", events=server.url)) as client:
            assert client.rank().status_code == 200
            server.kill()
            assert client.rank().status_code == 503
            event = {"user": "ann", "item": 15, "time": LOG_END + 1}
            assert client.post("/events", {"events": [event]}).status_code == 503
            assert client.rank(user=None).status_code == 200  # needs no events
            server.start()
            assert client.rank().status_code == 200


def test_events_that_every_log_has_are_deleted(tmp_path, options):
    settings = prepared(tmp_path, **options)
    events = open_events(settings)
    events.add([Event("ann", 10, LOG_END), Event("ann", 10, LOG_END + 1)])
    clean_up(settings, Serving(primary="v1.2024-01-01"))
    assert [of.time for of in events.of_user("ann", after=0, limit=9)] == [LOG_END + 1]


def test_two_services_of_a_machine_have_different_ids(tmp_path):
    first, second = make_settings(tmp_path / "a"), make_settings(tmp_path / "b")
    assert service_id(first) != service_id(second)
    assert service_id(first) == service_id(make_settings(tmp_path / "b" / ".." / "a"))
    assert service_id(first).startswith(socket.gethostname())


def test_the_supervisor_writes_the_password_into_no_file(tmp_path, options, monkeypatch):
    settings = prepared(tmp_path, port=0, token=TOKEN, **options)
    for name in (VARIABLE, TOKEN_VARIABLE, EVENTS_PASSWORD_VARIABLE):
        monkeypatch.setenv(name, "")  # so that it is restored
    monkeypatch.setattr("deep_interest.service.supervisor.Multiprocess", NoWorkers)
    monkeypatch.setattr(
        "deep_interest.service.supervisor.clear_shared_metrics", lambda _: None
    )  # of this process
    run_service(settings, lambda: Serving(primary="v1.2024-01-01"), interval=60)
    assert settings_of_worker() == settings
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert tmp_path / "settings.json" in files
    for secret in (PASSWORD, TOKEN):
        assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_server_that_could_lose_events_is_a_warning_at_the_start(tmp_path, options, caplog):
    with caplog.at_level(logging.WARNING):
        check_events(prepared(tmp_path, **options))  # this server has no append-only file
    assert "acknowledged events are lost when it stops" in caplog.text
    assert PASSWORD not in caplog.text


def test_a_wrong_password_ends_the_start(tmp_path, options):
    with pytest.raises(EventStoreError, match="refuses the user or the password"):
        check_events(prepared(tmp_path, **options | {"events_password": "another"}))


def test_the_missing_package_is_named(tmp_path, options, monkeypatch):
    settings = prepared(tmp_path, **options)
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "deep_interest.serving.redis_events", raising=False)
    with pytest.raises(
        InputError, match=r'redis is missing; install it with pip install "deep-interest\[redis\]"'
    ):
        open_events(settings)


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:6379/0", "redis://cache", "rediss://service@cache:6380/12"]
)
def test_an_address_of_redis_is_accepted(url):
    assert check_address(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:6379",
        "http://127.0.0.1",
        "redis://",
        "redis://cache/first",
        "redis://cache:x",
        "redis://cache/0?db=3",
        "redis://cache/²",
        "redis://cache/٣",
    ],
)
def test_another_address_is_an_error(url):
    with pytest.raises(InputError, match=r"^--events: .*redis://HOST:PORT/DATABASE"):
        check_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3cret@127.0.0.1/0",
        "redis://h:6379/0?password=s3cret",
        "redis://h:6379/0#s3cret",
        "redis:s3cret@h",
        "redis://:s3cret/x@h",
        "redis://:x/s3cret@h",
        "s3cret@h:6379",
        "redis://[s3cret@h",
        "redis://h:s3cret/0",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(url):
    with pytest.raises(InputError, match="put it into a file for --events-password-file") as raised:
        check_address(url)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_the_password_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "password.txt").write_text("with blanks \n")
    (tmp_path / "two-lines.txt").write_text("first\r\nsecond\n")
    (tmp_path / "empty.txt").write_text("\nsecond\n")
    (tmp_path / "binary.txt").write_bytes(b"s3cret\xe9")
    assert read_password(str(tmp_path / "password.txt"), "NAME") == "with blanks "
    assert read_password(str(tmp_path / "two-lines.txt"), "NAME") == "first"
    monkeypatch.delenv("NAME", raising=False)
    assert read_password(None, "NAME") is None
    monkeypatch.setenv("NAME", "secret")
    assert read_password(None, "NAME") == "secret"
    errors = {"empty.txt": "is empty", "nothing.txt": "cannot be read", "binary.txt": "is not UTF-8; save"}
    for name, message in errors.items():
        with pytest.raises(InputError, match=message):
            read_password(str(tmp_path / name), "NAME")
