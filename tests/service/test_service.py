"""What surrounds a ranking: the token, the queue, versions that come and go, splits, shadows, and the request log."""

import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests
from support.service import (
    CONTEXT,
    EXPERIMENT,
    LOG_END,
    Client,
    make_snapshot,
    prepared,
    running,
    snapshot_of,
)

from deep_interest.errors import InputError
from deep_interest.service.app import Service, make_app
from deep_interest.service.deployment import DeploymentLoader, Serving, bucket_of
from deep_interest.service.metrics import MULTIPROCESS_FOLDER, Metrics
from deep_interest.service.worker import application
from deep_interest.serving.events import EventStoreError, SqliteEvents
from deep_interest.serving.ranker import Ranker, RankingRequest

pytestmark = pytest.mark.slow  # each test starts a server


def make_service(settings, **options):
    """A service and its loader, without a server."""
    events = SqliteEvents(settings.database)
    loader = DeploymentLoader(settings.serving_file, settings.snapshots, events, interval=0.02)
    return Service(settings, loader, events, Metrics(EXPERIMENT), **options)


def test_a_token_is_needed_for_all_but_health(tmp_path):
    settings = prepared(tmp_path, token="secret")
    with running(settings) as client:
        assert client.rank().status_code == 200
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic secret"},
            {"Authorization": "Bearer sécret".encode()},
        ):
            for path in ("/metrics", "/docs", "/openapi.json", "/v2", f"/v2/models/{EXPERIMENT}"):
                response = requests.get(client.url + path, headers=headers, timeout=5)
                assert response.status_code == 401
                assert response.headers["WWW-Authenticate"] == "Bearer"
            assert requests.post(client.url + "/rank", json={}, headers=headers, timeout=5).status_code == 401
        assert requests.get(client.url + "/v2/health/ready", timeout=5).status_code == 200
        assert "securitySchemes" in client.get("/openapi.json").json()["components"]


def test_a_full_queue_refuses_at_once(tmp_path, monkeypatch):
    settings = prepared(tmp_path, queue=2)
    service, release, entered = make_service(settings), threading.Event(), threading.Event()
    features = Ranker.features

    def slow(self, request):
        entered.set()
        assert release.wait(10)
        return features(self, request)

    monkeypatch.setattr(Ranker, "features", slow)
    with running(settings, app=make_app(service)) as client, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(Client(int(client.url.rpartition(":")[2])).rank) for _ in range(2)]
        assert entered.wait(10)
        while service.queue.pending < 2:
            pass
        refused = client.rank()
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert client.get("/v2/health/live").status_code == 200  # the event loop is free
        release.set()
        assert [of.result().status_code for of in waiting] == [200, 200]
        assert client.rank().status_code == 200


def test_a_new_version_takes_over_without_a_failed_or_mixed_answer(tmp_path):
    settings = prepared(tmp_path, versions=("v1", "v2"))
    expected = {}
    for version in ("v1", "v2"):
        ranking = Ranker(snapshot_of(settings, f"{version}.2024-01-01")).rank(
            RankingRequest("ann", list(range(10, 16)), context=CONTEXT)
        )
        expected[version] = dict(zip(range(10, 16), ranking.ctr.tolist(), strict=True))
    assert expected["v1"] != expected["v2"]
    service = make_service(settings)
    seen = set()
    with running(settings, app=make_app(service)) as client:
        for turn in range(10):
            version = ("v2", "v1")[turn % 2]
            Serving(primary=f"{version}.2024-01-01").write(settings.serving_file)
            for _ in range(1000):
                answer = client.rank().json()
                found = {of["item"]: of["ctr"] for of in answer["ranking"]}
                assert found == expected[answer["version"]]
                seen.add(answer["version"])
                if answer["version"] == version:
                    break
            assert answer["version"] == version
    assert seen == {"v1", "v2"}


def test_a_version_has_ranked_before_it_takes_over(tmp_path, monkeypatch):
    settings = prepared(tmp_path, versions=("v1", "v2"))
    loader, ranked, score = make_service(settings).loader, [], Ranker.score

    def recorded(self, features):
        ranked.append((self.version, loader.current.primary.version))
        return score(self, features)

    monkeypatch.setattr(Ranker, "score", recorded)
    Serving(primary="v2.2024-01-01").write(settings.serving_file)
    assert loader.refresh()
    assert set(ranked) == {("v2", "v1")}  # v2 scored while v1 was serving
    assert loader.current.primary.version == "v2"


def test_the_log_is_memory_mapped(tmp_path):
    snapshot = snapshot_of(prepared(tmp_path))
    mapped = Path("/proc/self/maps").read_text()
    for name in ("offsets", "field.item_id", "field.action"):
        assert f"v1.2024-01-01/log/{name}.npy" in mapped
    assert len(snapshot.log.offsets) == 5  # users ann, bob, cem and unknown


def test_a_damaged_version_never_takes_over(tmp_path, caplog):
    settings = prepared(tmp_path, versions=("v1", "v2"))
    file = settings.snapshots / "v2.2024-01-01/log/field.item_id.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\x07")
    service = make_service(settings)
    Serving(primary="v2.2024-01-01").write(settings.serving_file)
    with pytest.raises(InputError, match=r"log: field.item_id.npy does not match its checksum"):
        service.loader.refresh()
    with caplog.at_level(logging.ERROR), running(settings, app=make_app(service)) as client:
        assert client.rank().json()["version"] == "v1"
        while "the deployment stays as it was" not in caplog.text:
            pass
        assert client.rank().json()["version"] == "v1"


def test_a_split_is_sticky_and_has_its_share(tmp_path):
    serving = Serving(primary="v1.2024-01-01", split="v2.2024-01-01", share=0.3)
    settings = prepared(tmp_path, versions=("v1", "v2"), serving=serving)
    users = [f"user {number}" for number in range(2000)]
    share = np.mean([bucket_of(user) < 0.3 for user in users])
    assert share == pytest.approx(0.3, abs=0.04)
    with running(settings) as client:
        for user in users[:40]:
            versions = {client.rank(user).json()["version"] for _ in range(2)}
            assert versions == {"v2" if bucket_of(user) < 0.3 else "v1"}
        assert client.rank(None).json()["version"] == "v1"


def test_a_shadow_scores_the_same_request_and_both_are_logged(tmp_path):
    serving = Serving(primary="v1.2024-01-01", shadow="v2.2024-01-01")
    settings = prepared(tmp_path, versions=("v1", "v2"), serving=serving, request_log=tmp_path / "log")
    with running(settings) as client:
        answer = client.rank(items=(10, 12), request_id="r1").json()
    (entry,) = read_log(settings)
    assert (entry["request_id"], entry["version"], entry["shadow"]["version"]) == ("r1", "v1", "v2")
    assert dict(zip((10, 12), entry["ctr"], strict=True)) == {
        of["item"]: of["ctr"] for of in answer["ranking"]
    }
    shadow = Ranker(snapshot_of(settings, "v2.2024-01-01")).rank(
        RankingRequest("ann", [10, 12], context=CONTEXT)
    )
    assert entry["shadow"]["ctr"] == shadow.ctr.tolist()


def test_the_protocol_can_ask_for_a_version(tmp_path):
    serving = Serving(primary="v1.2024-01-01", shadow="v2.2024-01-01")
    settings = prepared(tmp_path, versions=("v1", "v2"), serving=serving)
    item = {"name": "items", "shape": [1], "datatype": "INT64", "data": [10]}
    body = {"inputs": [item, item | {"name": "hour", "data": [9]}]}
    with running(settings) as client:
        answers = [
            client.post(f"/v2/models/{EXPERIMENT}/versions/{of}/infer", body).json() for of in ("v1", "v2")
        ]
    assert [of["model_version"] for of in answers] == ["v1", "v2"]
    assert answers[0]["outputs"] != answers[1]["outputs"]


def test_a_shadow_or_a_log_that_fails_does_not_concern_the_client(tmp_path, monkeypatch, caplog):
    serving = Serving(primary="v1.2024-01-01", shadow="v2.2024-01-01")
    settings = prepared(tmp_path, versions=("v1", "v2"), serving=serving, request_log=tmp_path / "log")
    monkeypatch.setattr(Ranker, "rank", lambda *_: 1 / 0)  # only the shadow's
    with running(settings) as client:
        assert client.rank(request_id="r1").status_code == 200
        assert "deep_interest_unlogged_rankings_total 1.0" in client.get("/metrics").text
    assert "request r1 is not in the request log" in caplog.text


def test_the_request_log_has_what_the_model_saw(tmp_path):
    settings = prepared(tmp_path, request_log=tmp_path / "log")
    with running(settings) as client:
        client.post(
            "/events",
            {"events": [{"user": "ann", "item": 15, "time": LOG_END + 4, "columns": {"action": "buy"}}]},
        )
        client.rank(items=(10, 99))
    (entry,) = read_log(settings)
    features = entry["features"]
    assert features["history"]["item_id"] == [1, 2, 3, 6]
    assert features["history"]["gap"] == [5, 5, 5, 2]  # 10, 9, 8 and 1 units before the request
    assert features["candidates"]["item_id"] == [1, 0]
    assert entry["request"]["candidates"] == [{"item": 10, "bid": 1.0}, {"item": 99, "bid": 1.0}]


def read_log(settings):
    (file,) = settings.request_log.glob("requests.*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_the_client_has_not_caused_is_logged_and_not_shown(tmp_path, monkeypatch, caplog):
    settings = prepared(tmp_path)
    with running(settings) as client:
        monkeypatch.setattr(Ranker, "features", lambda *_: 1 / 0)
        response = client.rank()
        assert response.status_code == 500
        assert response.headers["X-Request-Id"] in response.json()["error"]["message"]
        assert "ZeroDivision" not in response.text
        assert "ZeroDivisionError" in caplog.text

        def refuse(*_):
            raise EventStoreError("events.sqlite: the disk is full")

        monkeypatch.setattr(SqliteEvents, "add", refuse)
        event = {"user": "ann", "item": 10, "time": LOG_END + 1}
        response = client.post("/events", {"events": [event]})
        assert response.status_code == 503
        assert "events.sqlite" not in response.text
        assert "the disk is full" in caplog.text


def test_the_access_log_is_one_json_object_per_request(tmp_path, caplog):
    with running(prepared(tmp_path)) as client, caplog.at_level(logging.INFO, logger="deep_interest.access"):
        client.rank(request_id="r9")
        client.get("/nothing")
    entries = [
        json.loads(record.message) for record in caplog.records if record.name == "deep_interest.access"
    ]
    assert entries[0]["request_id"] == "r9"
    assert (entries[0]["route"], entries[0]["status"], entries[0]["candidates"], entries[0]["version"]) == (
        "/rank",
        200,
        6,
        "v1",
    )
    assert entries[0]["ms"] > 0


def test_gauges_of_workers_that_have_ended_are_forgotten(tmp_path):
    code = (
        "import os; from deep_interest.service.metrics import Metrics\n"
        "if os.fork() == 0:\n"
        "    worker = Metrics('shop.din'); worker.queue.set(7); worker.serves('v1'); worker.candidates.inc(3); os._exit(0)\n"
        "os.wait(); worker = Metrics('shop.din'); worker.queue.set(1); worker.serves('v2'); worker.candidates.inc(4)\n"
        "print(worker.exposition().decode())"
    )
    variables = os.environ | {MULTIPROCESS_FOLDER: str(tmp_path)}
    text = subprocess.run(
        [sys.executable, "-c", code], text=True, check=True, stdout=subprocess.PIPE, env=variables
    ).stdout
    assert "deep_interest_queue 1.0" in text
    assert 'version="v1"' not in text
    assert "deep_interest_candidates_total 7.0" in text


def test_missing_snapshots_are_errors(tmp_path):
    settings = prepared(tmp_path)
    Serving(primary="v7.2024-01-01").write(settings.serving_file)
    with pytest.raises(InputError, match=r"v7.2024-01-01: there is no such snapshot"):
        application(settings)


def test_a_missing_device_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"^--device: 'cuda:99' does not exist here; this machine has cpu"):
        application(prepared(tmp_path, device="cuda:99"))


@pytest.mark.parametrize("model", ["base", "dien", "sim_hard", "sdim", "lr", "popularity", "item_knn"])
def test_other_models_serve_as_well(tmp_path, model):
    settings = prepared(tmp_path, versions=())
    name = make_snapshot(settings, model=model)
    Serving(primary=name).write(settings.serving_file)
    with running(settings) as client:
        assert len(client.ctr()) == 6
