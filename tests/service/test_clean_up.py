"""What no version uses is deleted; a failure of the event store neither hides a new version nor keeps the old snapshots."""

import threading
import time

import pytest
from support.service import make_snapshot, prepared

from deep_interest.service.clean_up import CleanUp
from deep_interest.service.deployment import Serving
from deep_interest.service.supervisor import _watch
from deep_interest.serving.events import EventStoreError

V1, V2, V3 = (Serving(primary=f"{version}.2024-01-01") for version in ("v1", "v2", "v3"))


class Store:
    """An event store whose server does not answer the first requests."""

    def __init__(self, failures):
        self.failures, self.pruned = failures, []

    def prune(self, until):
        if self.failures:
            self.failures -= 1
            raise EventStoreError("redis://cache: the Redis server cannot be reached")
        self.pruned.append(until)

    def close(self):
        pass


@pytest.fixture
def store(monkeypatch):
    store = Store(failures=0)
    monkeypatch.setattr("deep_interest.service.clean_up.open_events", lambda _: store)
    return store


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def names(settings):
    return sorted(path.name.partition(".")[0] for path in settings.snapshots.iterdir())


@pytest.mark.slow
def test_a_version_that_serves_is_not_reported_as_refused_when_cleaning_up_fails(tmp_path, store, caplog):
    settings = prepared(tmp_path, versions=("v1", "v2"))
    wanted, stop = [V1], threading.Event()
    caplog.set_level("INFO")
    thread = threading.Thread(target=_watch, args=(settings, lambda: wanted[0], V1, stop, 0.01))
    thread.start()
    wait_until(lambda: len(store.pruned) == 1)
    make_snapshot(settings, "v2")
    store.failures, wanted[0] = 3, V2
    wait_until(lambda: len(store.pruned) == 2)  # tried again until it succeeds
    assert store.failures == 0
    assert names(settings) == ["v1", "v2"]
    make_snapshot(settings, "v3")
    wanted[0] = V3
    wait_until(lambda: len(store.pruned) == 3)
    stop.set()
    thread.join()
    assert names(settings) == ["v2", "v3"]  # v2 served before v3
    assert "goes on serving" not in caplog.text
    assert caplog.text.count("old snapshots and events are not deleted yet") == 1
    assert "v2.2024-01-01 replaces v1.2024-01-01" in caplog.text
    assert "v3.2024-01-01 replaces v2.2024-01-01" in caplog.text


def test_cleaning_up_is_repeated_after_its_period(tmp_path, store):
    settings = prepared(tmp_path)
    hourly, at_once = CleanUp(settings, V1), CleanUp(settings, V1, period=0)
    hourly.run()
    hourly.run()
    assert len(store.pruned) == 1
    at_once.run()
    at_once.run()
    assert len(store.pruned) == 3
