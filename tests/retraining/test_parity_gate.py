"""The parity check of the gate: too few requests, and served scores that differ from batch scores, are refused with one reason."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from support.service import (
    BEHAVIORS,
    COLUMNS,
    CONTEXT,
    ITEMS,
    LOG_END,
    USERS,
    make_settings,
    make_snapshot,
    snapshot_of,
)

from deep_interest.evaluation.calibration import IsotonicCalibration
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.logs.tables import CanonicalTables
from deep_interest.retraining.gate import Check, Metrics, Verdict
from deep_interest.retraining.parity import Served, read_request_log
from deep_interest.retraining.parity_gate import CurrentVersion, newest, parity_checks
from deep_interest.service.rank_request import Ranked
from deep_interest.service.request_log import RequestLog
from deep_interest.service.schemas import RankRequest
from deep_interest.serving.ranker import Ranker
from deep_interest.serving.version import read_version

IMPRESSIONS = pd.DataFrame(
    {"user": ["ann"], "item": [10], "time": [LOG_END + 1], "label": np.array([1], np.int8), "hour": [9]}
)
REQUESTS = [
    {"user": user, "candidates": [{"item": item} for item in items], "context": CONTEXT, **more}
    for user in ("ann", "bob", "eve", None)
    for items, more in (
        ((10, 11, 15), {}),
        ((10, 99, 10), {"context": {"hour": [9, 10, 77]}}),
        ((12,), {"history": []}),
        ((12, 13), {"history": [10, 77, 11]}),
        ((14,), {"time": LOG_END + 500}),
    )
]


CALIBRATION = Calibration(0.5, IsotonicCalibration(np.array([0, 0.4, 1]), np.array([0, 0.1, 1])))


@pytest.fixture(scope="module", params=[None, CALIBRATION], ids=["not calibrated", "calibrated"])
def versions(request, tmp_path_factory):
    """A champion, whose requests are logged, a challenger, and the log."""
    folder = tmp_path_factory.mktemp("service")
    settings = make_settings(folder)
    for version, seed in (("v1", 0), ("v2", 7)):
        make_snapshot(settings, version, seed=seed, calibration=request.param)
    champion, log = Ranker(snapshot_of(settings)), RequestLog(folder / "requests")
    for number, body in enumerate(REQUESTS):
        request = RankRequest.model_validate({key: value for key, value in body.items() if value is not None})
        ranking = champion.rank(Ranked.of(request).ranking_request())
        log.write(f"r{number}", Ranked.of(request), champion, ranking, None)
    log.close()
    tables = CanonicalTables(BEHAVIORS, ITEMS, USERS, IMPRESSIONS)
    both = [
        CurrentVersion(read_version(folder / "registry" / name), tables, COLUMNS) for name in ("v1", "v2")
    ]
    return folder / "requests", *both


def failed(checks):
    return [check.name for check in checks if not check.passed]


@pytest.mark.slow
def test_equal_scores_pass(versions):
    checks = parity_checks(*versions, requests=len(REQUESTS))
    assert [(check.name, check.found) for check in checks[::2]] == [
        ("logged requests of the champion", 20), ("logged requests that the challenger can score", 20),
    ]  # fmt: skip
    assert all(0 <= check.found < 1e-6 for check in checks[1::2])
    assert failed(checks) == []


@pytest.mark.parametrize("with_log", [True, False])
def test_too_few_requests_are_the_only_reason(versions, with_log):
    folder, champion, challenger = versions
    (check,) = parity_checks(folder if with_log else None, champion, challenger, requests=21)
    assert check == Check("logged requests of the champion", 20 if with_log else 0, "at least 21", False)


@pytest.mark.parametrize("difference", [1e-5, float("nan")])
def test_a_champion_that_serves_other_scores_is_refused(versions, tmp_path, difference):
    folder, champion, challenger = versions
    (file,) = folder.glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[3]["ctr"][0] += difference
    (tmp_path / "requests.1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    checks = parity_checks(tmp_path, champion, challenger, requests=20)
    assert failed(checks) == ["champion: served minus batch scores"]


@pytest.mark.parametrize("difference", [1e-5, float("nan")])
def test_a_challenger_that_would_serve_other_scores_is_refused(versions, monkeypatch, difference):
    score = Ranker.score
    monkeypatch.setattr(Ranker, "score", lambda *args: score(*args) + np.float32(difference))
    checks = parity_checks(*versions, requests=20)
    assert failed(checks) == ["challenger: served minus batch scores"]
    assert checks[-1].expected == "at most 1e-06"


def test_a_history_that_the_service_reads_otherwise_is_found(versions, monkeypatch):
    of_log = Ranker._of_log

    def without_newest(ranker, user):
        codes, times = of_log(ranker, user)
        return {name: of[:-1] for name, of in codes.items()}, None if times is None else times[:-1]

    monkeypatch.setattr(Ranker, "_of_log", without_newest)
    assert failed(parity_checks(*versions, requests=20)) == ["challenger: served minus batch scores"]


def test_requests_that_the_challenger_refuses_do_not_count(versions, tmp_path):
    folder, champion, challenger = versions
    (file,) = folder.glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[0]["request"]["context"] = {"weekday": 1}
    (tmp_path / "requests.1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:  # what the champion saw is in the log
        patch.setattr("deep_interest.retraining.parity._other_context", lambda *_: False)
        checks = parity_checks(tmp_path, champion, challenger, requests=20)
    assert failed(checks) == ["logged requests that the challenger can score"]
    assert checks[-2].found == 19


def test_older_requests_replace_those_that_the_challenger_refuses(versions, tmp_path):
    folder, champion, challenger = versions
    (file,) = folder.glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[-2:]:
        line["request"]["context"] = {"weekday": 1}
    (tmp_path / "requests.1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:  # what the champion saw is in the log
        patch.setattr("deep_interest.retraining.parity._other_context", lambda *_: False)
        checks = parity_checks(tmp_path, champion, challenger, requests=4)
    assert failed(checks) == []
    assert checks[2].found == 4


def test_the_newest_requests_of_the_champion_are_checked(versions):
    def line(index, version):
        return Served(request_id=str(index), version=version, request={}, features={}, ctr=[])

    served = [line(index, version) for index, version in enumerate(["v1", "v2", "v1", "v1", "v2"])]
    assert [request.request_id for request in newest(served, "v1", 2)] == ["3", "2"]
    assert len(list(read_request_log(versions[0]))) == len(REQUESTS)


def test_the_newest_requests_are_those_of_all_workers(tmp_path):
    files = {  # names by start and process; the first line was logged by an older service
        "requests.100-7.jsonl": [("a", None), ("b", 111.0), ("c", 114.5)],
        "requests.100-8.jsonl": [("d", 110.0), ("e", 112.0), ("f", 113.0)],
    }
    for name, requests in files.items():
        lines = [
            {"request_id": request_id, "version": "v1", "request": {}, "features": {}, "ctr": []}
            | ({} if seconds is None else {"time": seconds})
            for request_id, seconds in requests
        ]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    served = list(read_request_log(tmp_path))
    assert [request.request_id for request in newest(served, "v1", 3)] == ["c", "f", "e"]
    assert [request.request_id for request in newest(served, "v1", 9)] == list("cfebda")


def test_the_service_logs_the_time_of_a_request(versions):
    logged = [request.time for request in read_request_log(versions[0])]
    assert logged == sorted(logged)
    assert abs(logged[-1] - time.time()) < 3600


def test_a_failed_check_refuses_the_promotion():
    metrics = Metrics(0.6, 0.6, 0.5, 1.0, 200, 1.0, 900)
    verdict = Verdict(True, (Check("coverage", 1.0, "at least 0.1", True),), metrics, None, None)
    fine, bad = Check("a", 0.0, "at most 1e-06", True), Check("b", 1.0, "at most 1e-06", False)
    assert verdict.with_checks([fine]).promoted
    refused = verdict.with_checks([fine, bad])
    assert not refused.promoted
    assert [check.name for check in refused.checks] == ["coverage", "a", "b"]
    assert not refused.with_checks([fine]).promoted
