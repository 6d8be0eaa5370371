"""Where the service has its events: SQLite in its folder, or a Redis server with a password that no file has."""

import logging
import sys

import pytest
from support.redis_server import redis_server
from support.service import LOG_END, prepared, running

from deep_interest.errors import InputError
from deep_interest.service.deployment import Serving
from deep_interest.service.event_store import check_address, check_events, open_events, read_password
from deep_interest.service.settings import SECRETS, VARIABLE, settings_of_worker
from deep_interest.service.supervisor import clean_up
from deep_interest.serving.events import Event, EventStoreError

PASSWORD = "a-password-of-the-tests"


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
def test_a_server_that_ends_is_a_503_and_not_a_hang(tmp_path):
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


def test_the_password_is_in_no_file_of_the_settings(tmp_path, options, monkeypatch):
    settings = prepared(tmp_path, **options)
    file = tmp_path / "settings.json"
    file.write_text(settings.model_dump_json(exclude=SECRETS))
    assert PASSWORD not in file.read_text()
    monkeypatch.setenv(VARIABLE, str(file))
    monkeypatch.setenv("DEEP_INTEREST_EVENTS_PASSWORD", PASSWORD)
    assert settings_of_worker() == settings


def test_a_server_that_could_lose_events_is_a_warning_at_the_start(tmp_path, options, caplog):
    with caplog.at_level(logging.WARNING):
        check_events(prepared(tmp_path, **options))  # this server has no append-only file
    assert "acknowledged events are lost when it ends" in caplog.text
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
    ],
)
def test_another_address_is_an_error(url):
    with pytest.raises(InputError, match=r"^--events: .*redis://HOST:PORT/DATABASE"):
        check_address(url)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="leave it out, and put it into a file") as raised:
        check_address(f"redis://:{PASSWORD}@127.0.0.1/0")
    assert PASSWORD not in str(raised.value)


def test_the_password_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "password.txt").write_text("with blanks \n")
    (tmp_path / "empty.txt").write_text("\n")
    assert read_password(str(tmp_path / "password.txt"), "NAME") == "with blanks "
    monkeypatch.delenv("NAME", raising=False)
    assert read_password(None, "NAME") is None
    monkeypatch.setenv("NAME", "secret")
    assert read_password(None, "NAME") == "secret"
    for name, message in (("empty.txt", "is empty"), ("nothing.txt", "cannot be read")):
        with pytest.raises(InputError, match=message):
            read_password(str(tmp_path / name), "NAME")
