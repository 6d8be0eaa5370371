"""The service as processes: workers that are killed, versions that are replaced, events that survive, an end that loses no request.

The tests share one service, which the last ones end.
"""

import multiprocessing
import os
import signal
import socket
import threading
import time
from contextlib import suppress

import psutil
import pytest
import requests
from filelock import FileLock
from support.service import CONTEXT, LOG_END, Client, make_snapshot, prepared

from deep_interest.errors import InputError
from deep_interest.service.clean_up import clean_up
from deep_interest.service.deployment import Serving
from deep_interest.service.supervisor import _verified, run_service
from deep_interest.service.worker import create_app
from deep_interest.serving.events import Event, SqliteEvents

WORKERS = 2
TOKEN = "a-secret-of-the-tests"
pytestmark = pytest.mark.slow


def serve(settings):
    """Run the service of some settings; which version serves is in a file that the tests write."""

    def prepare():
        wanted = Serving.model_validate_json((settings.folder / "wanted.json").read_text())
        for name in wanted.snapshots:
            if not (settings.snapshots / name).exists():
                make_snapshot(settings, name.partition(".")[0], seed=int(name[1]))
        return wanted

    run_service(settings, prepare, interval=0.1)


def want(settings, version):
    Serving(primary=f"{version}.2024-01-01").write(settings.folder / "wanted.json")


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Processes:
    """A service as processes of its own."""

    def __init__(self, settings):
        self.settings = settings
        self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(settings,))
        self.process.start()
        self.client = Client(settings.port, TOKEN)
        wait_until(self.is_ready)

    def is_ready(self):
        try:
            return self.client.get("/v2/health/ready").status_code == 200
        except requests.ConnectionError:
            return False

    def workers(self):
        found = set()
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                is_worker = "resource_tracker" not in " ".join(child.cmdline())
                if is_worker and child.status() != psutil.STATUS_ZOMBIE:
                    found.add(child.pid)
        return found

    def kill(self):
        for pid in (*self.workers(), self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.join()


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("service")
    settings = prepared(
        folder, versions=("v1", "v2"), port=port, access_log=False, workers=WORKERS, token=TOKEN
    )
    want(settings, "v1")
    return settings


@pytest.fixture(scope="module")
def services(settings):
    """The running service in a list, so that a test can replace it by another."""
    started = [Processes(settings)]
    yield started
    for processes in started:
        if processes.process.is_alive():
            processes.kill()


def test_snapshots_that_nothing_uses_are_deleted(services, settings):
    assert [of.name for of in settings.snapshots.iterdir()] == ["v1.2024-01-01"]


def test_the_token_reaches_the_workers_and_no_file(services, settings):
    assert requests.get(services[-1].client.url + "/metrics", timeout=5).status_code == 401
    assert services[-1].client.get("/metrics").status_code == 200
    files = [of for of in settings.folder.rglob("*") if of.is_file()]
    assert files
    assert not [of for of in files if TOKEN.encode() in of.read_bytes()]


def test_metrics_are_those_of_all_workers(services, settings):
    for _ in range(20):
        Client(settings.port, TOKEN).rank(items=(10, 11))  # each has a connection of its own
    text = services[-1].client.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("deep_interest_candidates_total")]
    assert float(line.split()[-1]) == 40


def rank_until(client, stop, answers, failures):
    while not stop.is_set():
        try:
            answers.append(client.rank().json()["version"])
        except (requests.ConnectionError, requests.Timeout) as error:
            failures.append(error)


def test_replaced_versions_and_a_killed_worker_lose_at_most_the_requests_of_the_worker(services, settings):
    stop, answers, failures = threading.Event(), [], []
    load = [
        threading.Thread(target=rank_until, args=(Client(settings.port, TOKEN), stop, answers, failures))
        for _ in range(3)
    ]
    for thread in load:
        thread.start()
    try:
        for version in ("v2", "v1", "v2"):
            want(settings, version)
            wait_until(lambda: answers[-9:] == [version] * 9)  # noqa: B023
        assert not failures
        before = services[-1].workers()
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(services[-1].workers() - {min(before)}) == WORKERS)
        count = len(answers)
        wait_until(lambda: len(answers) > count + 20)
    finally:
        stop.set()
        for thread in load:
            thread.join()
    assert len(failures) <= len(load)  # each client had at most one request in the killed worker
    assert set(answers) == {"v1", "v2"}


def test_a_damaged_snapshot_is_not_offered_to_the_workers(services, settings):
    make_snapshot(settings, "v3", seed=7)
    file = settings.snapshots / "v3.2024-01-01/log/offsets.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\x07")
    want(settings, "v3")
    time.sleep(0.5)
    assert "v2" in settings.serving_file.read_text()
    assert services[-1].client.rank().json()["version"] == "v2"
    want(settings, "v1")
    wait_until(lambda: services[-1].client.rank().json()["version"] == "v1")


def test_acknowledged_events_survive_the_end_of_all_processes(services, settings):
    client = services[-1].client
    for number in range(1, 6):
        event = {
            "user": "ann",
            "item": 10 + number % 6,
            "time": LOG_END + number,
            "columns": {"action": "buy"},
        }
        assert client.post("/events", {"events": [event]}).json() == {"accepted": 1}
    before = client.ctr("ann")
    services[-1].kill()
    services.append(Processes(settings))
    assert services[-1].client.ctr("ann") == before


def test_running_requests_are_finished_at_the_end(services, settings):
    answers = []
    body = {
        "user": "ann",
        "candidates": [{"item": 10 + number % 6} for number in range(1000)],
        "context": CONTEXT,
    }
    client = Client(settings.port, TOKEN)
    client.rank()  # its connection is open
    thread = threading.Thread(target=lambda: answers.append(client.post("/rank", body)))
    thread.start()
    time.sleep(0.005)
    process = services[-1].process
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    thread.join()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["ranking"]) == 1000
    assert process.exitcode == 0


def test_a_folder_in_use_is_an_error(tmp_path):
    settings = prepared(tmp_path)
    want(settings, "v1")
    with (
        FileLock(settings.folder / ".lock"),
        pytest.raises(InputError, match="another service uses this folder"),
    ):
        serve(settings)


def test_a_damaged_snapshot_is_written_again_at_the_start(tmp_path):
    settings = prepared(tmp_path)
    file = settings.snapshots / "v1.2024-01-01/log/offsets.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"\x07")

    def prepare():
        if not file.exists():
            make_snapshot(settings, "v1")
        return Serving(primary="v1.2024-01-01")

    assert _verified(settings, prepare).primary == "v1.2024-01-01"
    assert file.read_bytes() == whole
    with pytest.raises(InputError, match="there is no such snapshot"):
        _verified(settings, lambda: Serving(primary="v9.2024-01-01"))


def test_a_worker_that_cannot_load_its_version_ends_the_service(tmp_path, monkeypatch, caplog):
    settings = prepared(tmp_path)
    file = tmp_path / "settings.json"
    file.write_text(settings.model_dump_json())
    Serving(primary="v9.2024-01-01").write(settings.serving_file)
    monkeypatch.setenv("DEEP_INTEREST_SERVICE", str(file))
    monkeypatch.setattr("deep_interest.service.worker.set_up_logging", lambda: None)
    with pytest.raises(SystemExit) as ended:
        create_app()
    assert ended.value.code == 3  # uvicorn's supervisor ends with it
    assert "v9.2024-01-01: there is no such snapshot" in caplog.text


def test_events_that_every_log_has_are_deleted(tmp_path):
    settings = prepared(tmp_path)
    events = SqliteEvents(settings.database)
    events.add([Event("ann", 10, LOG_END), Event("ann", 10, LOG_END + 1)])
    clean_up(settings, Serving(primary="v1.2024-01-01"))
    assert [of.time for of in events.of_user("ann", after=0, limit=9)] == [LOG_END + 1]


def test_a_port_in_use_is_an_error(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = prepared(tmp_path, port=taken.getsockname()[1])
        want(settings, "v1")
        with pytest.raises(InputError, match=r"127.0.0.1:\d+ cannot be used; .* choose another --port"):
            serve(settings)
