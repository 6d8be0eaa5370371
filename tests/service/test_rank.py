"""Ranking over HTTP: the answers, and every kind of bad request."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.service import CONTEXT, LOG_END, make_settings, make_snapshot, prepared, running, snapshot_of

from deep_interest.evaluation.calibration import IsotonicCalibration
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.service.deployment import Serving
from deep_interest.service.http import parse
from deep_interest.service.rank_request import parse_ranked
from deep_interest.service.schemas import EventsRequest
from deep_interest.serving.exploration import Exploration
from deep_interest.serving.ranker import Ranker, RankingRequest


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return prepared(
        tmp_path_factory.mktemp("service"), max_candidates=8, max_history=6, max_events=3, max_body=4096
    )


@pytest.fixture(scope="module")
def client(settings):
    with running(settings) as client:
        yield client


def test_candidates_are_ordered_by_ctr_times_bid(client):
    candidates = [{"item": item, "bid": 16.0 - item} for item in range(10, 16)]
    answer = client.post(
        "/rank", {"user": "ann", "candidates": candidates, "context": CONTEXT, "gamma": 0.5}
    ).json()
    ranking = answer["ranking"]
    assert [of["ecpm"] for of in ranking] == sorted((of["ecpm"] for of in ranking), reverse=True)
    for of in ranking:
        assert of["bid"] == 16.0 - of["item"]
        assert of["ecpm"] == pytest.approx(of["ctr"] ** 0.5 * of["bid"], rel=1e-12)
    assert answer["version"] == "v1"
    assert answer["model"] == "shop.din"
    assert (answer["unknown_user"], answer["unknown_items"]) == (False, 0)


def test_top_k_is_the_beginning_of_the_ranking(client):
    assert client.rank(top_k=2).json()["ranking"] == client.rank().json()["ranking"][:2]


def test_scores_are_those_of_the_ranker(client, settings):
    ranking = Ranker(snapshot_of(settings)).rank(RankingRequest("ann", [10, 13], context=CONTEXT))
    found = client.ctr(items=(10, 13))
    np.testing.assert_array_equal(np.float32([found[10], found[13]]), ranking.ctr)


def test_users_histories_and_items_that_are_unknown_are_reported(client):
    answer = client.rank("eve", items=(10, 99)).json()
    assert (answer["unknown_user"], answer["unknown_items"]) == (True, 1)
    assert client.ctr("eve") == client.ctr(None) == client.ctr(None, history=[])
    assert client.ctr("eve") != client.ctr("ann")


def test_a_history_takes_the_place_of_the_known_one(client):
    assert client.ctr("ann", history=[15]) != client.ctr("ann")
    assert client.ctr("ann", history=[10, 11, 12]) != client.ctr(
        "ann"
    )  # what happened, and when, is not known
    assert client.ctr("bob", history=[10, 11]) != client.ctr(
        "ann", history=[10, 11]
    )  # the profile is the user's


def test_repeated_candidates_have_equal_scores(client):
    scores = [of["ctr"] for of in client.rank(items=(11, 11, 11)).json()["ranking"]]
    assert len(scores) == 3
    assert len(set(scores)) == 1


def test_the_time_of_the_request_counts(client):
    assert client.ctr(time=LOG_END + 1) == client.ctr()
    assert client.ctr(time=LOG_END + 1_000_000) != client.ctr()


def test_the_request_id_is_kept_or_made(client):
    response = client.rank(request_id="abc-1")
    assert response.json()["request_id"] == response.headers["X-Request-Id"] == "abc-1"
    made = {client.rank().json()["request_id"] for _ in range(3)}
    assert len(made) == 3


RANK = {"user": "ann", "candidates": [{"item": 10}], "context": CONTEXT}
BAD = {
    "not JSON": ("{", 400, None, "not JSON"),
    "empty body": ("", 400, None, "not JSON"),
    "a list": ("[]", 422, None, "body"),
    "a lone surrogate": (b'{"user":"\\ud800"}', 400, None, "not JSON"),
    "not UTF-8": (b'{"user":"\xff"}', 400, None, "not JSON"),
    "no candidates": ({"user": "ann", "context": CONTEXT}, 422, "candidates", "required"),
    "empty candidates": (RANK | {"candidates": []}, 422, "candidates", "at least 1"),
    "too many candidates": (RANK | {"candidates": [{"item": 10}] * 9}, 422, "candidates", "at most 8"),
    "a candidate without item": (RANK | {"candidates": [{"bid": 1}]}, 422, "candidates.0.item", "required"),
    "an item of another type": (RANK | {"candidates": [{"item": "10"}]}, 422, "candidates", "found '10'"),
    "a user of another type": (RANK | {"user": 7}, 422, "user", "found 7"),
    "a number that is too large": (
        RANK | {"candidates": [{"item": 2**64}]},
        422,
        "candidates.0.item",
        "less than",
    ),
    "a string that is too long": (RANK | {"user": "a" * 1025}, 422, "user", "1024"),
    "a bid of 0": (
        RANK | {"candidates": [{"item": 10, "bid": 0}]},
        422,
        "candidates.0.bid",
        "greater than 0",
    ),
    "an infinite bid": ('{"candidates": [{"item": 10, "bid": 1e999}]}', 422, "candidates.0.bid", "finite"),
    "a negative gamma": (RANK | {"gamma": -1}, 422, "gamma", "greater than or equal to 0"),
    "top_k of 0": (RANK | {"top_k": 0}, 422, "top_k", "greater than or equal to 1"),
    "no context": ({"candidates": [{"item": 10}]}, 422, "context", "needs hour"),
    "an unknown context feature": (RANK | {"context": {"huor": 9}}, 422, "context", "huor is perhaps hour"),
    "a context value of another type": (RANK | {"context": {"hour": "9"}}, 422, "context", "found '9'"),
    "a context list of another length": (
        RANK | {"context": {"hour": [9, 10]}},
        422,
        "context",
        "has 2 values",
    ),
    "an empty context list": (RANK | {"context": {"hour": []}}, 422, "context", "has 0 values"),
    "a nested context value": (RANK | {"context": {"hour": {"a": 1}}}, 422, "context.hour", ""),
    "a history of another type": (RANK | {"history": ["10"]}, 422, "history", "found '10'"),
    "a history that is too long": (RANK | {"history": [10] * 7}, 422, "history", "at most 6"),
    "an unknown field": (RANK | {"candidate": 1}, 422, "candidate", "not permitted"),
    "a request id with other characters": (RANK | {"request_id": "日本"}, 422, "request_id", "pattern"),
    "a request id with a blank": (RANK | {"request_id": "a b"}, 422, "request_id", "pattern"),
    "a body that is too large": ("x" * 4097, 413, None, "4,096"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_gets_one_error_that_names_the_field(client, name):
    body, status, field, message = BAD[name]
    response = client.post("/rank", body)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["field"] == field
    assert message in error["message"]
    assert "Traceback" not in response.text


def test_a_body_without_length_is_limited_as_well(client):
    response = client.post("/rank", None, data=(b"x" * 1000 for _ in range(10)))
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"), [("get", "/rank", 405), ("get", "/nothing", 404), ("post", "/docs", 405)]
)
def test_other_paths_and_methods_are_errors(client, method, path, status):
    response = client.get(path) if method == "get" else client.post(path, {})
    assert response.status_code == status
    assert response.json()["error"]["message"]


def test_events_extend_the_history_at_once(client):
    before = client.ctr("cem")
    event = {"user": "cem", "item": 10, "time": LOG_END + 1, "columns": {"action": "buy"}}
    assert client.post("/events", {"events": [event]}).json() == {"accepted": 1}
    after = client.ctr("cem")
    assert after != before
    client.post("/events", {"events": [event | {"time": LOG_END + 2, "columns": {"action": "view"}}]})
    assert client.ctr("cem") != after


def test_an_event_without_columns_is_one_of_which_nothing_is_known(client):
    event = {"user": "new too", "item": 10, "time": LOG_END + 1}
    assert client.post("/events", {"events": [event, event | {"columns": {"action": None}}]}).json() == {
        "accepted": 2
    }
    assert client.rank("new too").status_code == 200


def test_a_user_without_a_log_has_the_history_of_the_events(client):
    assert client.rank("new").json()["unknown_user"] is True
    client.post("/events", {"events": [{"user": "new", "item": 12, "time": LOG_END + 1}]})
    assert client.rank("new").json()["unknown_user"] is False
    assert client.ctr("new") != client.ctr("eve")


def test_events_that_the_log_has_are_not_counted_twice(client):
    before = client.ctr("bob")
    client.post("/events", {"events": [{"user": "bob", "item": 10, "time": LOG_END}]})
    assert client.ctr("bob") == before


EVENT = {"user": "ann", "item": 10, "time": LOG_END + 1}
BAD_EVENTS = {
    "no events": ({"events": []}, "events", "at least 1"),
    "too many events": ({"events": [EVENT] * 4}, "events", "at most 3"),
    "no time": ({"events": [EVENT, {"user": "ann", "item": 10}]}, "events.1.time", "required"),
    "a fractional time": ({"events": [EVENT | {"time": 1.5}]}, "events.0.time", "integer"),
    "an item of another type": ({"events": [EVENT, EVENT | {"item": "10"}]}, "events.1.item", "found '10'"),
    "a column of another type": (
        {"events": [EVENT | {"columns": {"action": 5}}]},
        "events.0.columns.action",
        "found 5",
    ),
    "a time that is too large": ({"events": [EVENT | {"time": 2**62}]}, "events.0.time", "less than"),
    "an unknown column": (
        {"events": [EVENT | {"columns": {"colour": 1}}]},
        "events.0.columns.colour",
        "it sees action",
    ),
}


@pytest.mark.parametrize("name", BAD_EVENTS)
def test_bad_events_are_refused_as_a_whole(client, name):
    body, field, message = BAD_EVENTS[name]
    before = client.ctr("ann")
    response = client.post("/events", body)
    assert response.status_code == 422
    assert response.json()["error"]["field"] == field
    assert message in response.json()["error"]["message"]
    assert client.ctr("ann") == before


def test_metrics_count_requests_candidates_and_unknown_ids(client):
    def metric(name):
        lines = client.get("/metrics").text.splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith(name) and "{" not in line.split()[0]
        )

    names = (
        "deep_interest_candidates_total",
        "deep_interest_unknown_items_total",
        "deep_interest_unknown_users_total",
    )
    before = [metric(name) for name in names]
    client.rank("eve", items=(10, 99, 98))
    assert [metric(name) - old for name, old in zip(names, before, strict=True)] == [3, 2, 1]
    text = client.get("/metrics").text
    assert (
        'deep_interest_version_info{attention="float32",experiment="shop.din",tables="float32",version="v1"} 1.0'
        in text
    )
    assert 'deep_interest_requests_total{route="/rank",status="200"}' in text
    assert 'deep_interest_request_seconds_bucket{le="0.005",route="/rank"}' in text


def test_the_page_has_an_example_that_works(client, settings):
    from html import unescape

    page = client.get("/docs").text
    example = unescape(page.partition("-d '")[2].partition("'</pre>")[0])
    assert client.post("/rank", json.loads(example)).status_code == 200
    assert "<script" not in page


def test_the_requests_of_the_documentation_have_valid_fields():
    """Bodies of all curl commands; users and items are those of another shop."""
    page = (Path(__file__).parents[2] / "docs/serving.md").read_text(encoding="utf-8")
    bodies = re.findall(
        r"curl -s http://127\.0\.0\.1:8080(/\w+)[^']*'[^']*'[^']*'\s*(\{.*?\})'", page, flags=re.DOTALL
    )
    assert [path for path, _ in bodies] == ["/rank", "/events"]
    for path, body in bodies:
        if path == "/rank":
            wanted = parse_ranked(body.encode())
            assert (wanted.items, wanted.ranking_request().user) == ([1002, 95], 557)
        else:
            (event,) = parse(EventsRequest, body.encode()).events
            assert (event.user, event.item) == (557, 1002)


@pytest.mark.slow
def test_a_calibrated_version_serves_calibrated_probabilities_in_the_same_order(tmp_path):
    """Alone, together with other requests, and over the inference protocol; the snapshot has the calibration of the version."""
    calibration = Calibration(0.5, IsotonicCalibration(np.array([0, 0.4, 1]), np.array([0, 0.1, 1])))
    settings = make_settings(tmp_path)
    names = [make_snapshot(settings, "plain"), make_snapshot(settings, "mapped", calibration=calibration)]
    plain, mapped = (Ranker(snapshot_of(settings, name)) for name in names)
    requests = [RankingRequest(user, [10, 13, 15], context=CONTEXT) for user in ("ann", "eve")]
    rankings = [[ranker.rank(request) for request in requests] for ranker in (plain, mapped)]
    together = mapped.score_many([mapped.features(request) for request in requests])
    for before, after, ctr in zip(*rankings, together, strict=True):
        odds = before.ctr.astype(float) / (1 - before.ctr.astype(float)) * 0.5
        expected = np.interp(odds / (1 + odds), [0, 0.4, 1], [0, 0.1, 1])
        np.testing.assert_allclose(after.ctr, expected, atol=1e-12)
        np.testing.assert_allclose(ctr, expected, atol=1e-6)
        np.testing.assert_allclose(after.ecpm, expected, atol=1e-12)
        assert after.order.tolist() == before.order.tolist()
    Serving(primary=names[1]).write(settings.serving_file)
    with running(settings) as client:
        assert list(client.ctr(items=(10, 13, 15)).values()) == sorted(rankings[1][0].ctr, reverse=True)
        tensors = [
            {"name": name, "datatype": kind, "shape": [len(values)], "data": values}
            for name, kind, values in (
                ("items", "INT64", [10, 13, 15]),
                ("user", "BYTES", ["ann"]),
                ("hour", "INT64", [9]),
            )
        ]
        answer = client.post("/v2/models/shop.din/infer", {"inputs": tensors}).json()
    ctr = next(of for of in answer["outputs"] if of["name"] == "ctr")
    assert ctr["data"] == np.float32(rankings[1][0].ctr).tolist()


@pytest.mark.slow
def test_exploration_answers_and_logs_propensities(tmp_path):
    settings = prepared(tmp_path, explore=Exploration(epsilon=0.5), request_log=tmp_path / "log")
    with running(settings) as client:
        best = [10, 11, 12]
        scores = client.ctr(items=best)
        by_score = sorted(best, key=lambda item: -scores[item])
        answers = [client.rank(items=best, top_k=2, request_id=f"r{n}").json() for n in range(40)]
        again = client.rank(items=best, top_k=2, request_id="r0").json()
    for answer in answers:
        for slot, shown in enumerate(answer["ranking"]):
            expected = 0.5 / 3 + (0.5 if shown["item"] == by_score[slot] else 0)
            assert shown["propensity"] == pytest.approx(expected)
    assert again == answers[0]
    assert len({tuple(of["item"] for of in answer["ranking"]) for answer in answers}) > 3
    lines = [
        json.loads(line)
        for file in (tmp_path / "log").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    logged = {line["request_id"]: line for line in lines}
    for answer in answers:
        line = logged[answer["request_id"]]
        assert [best[index] for index in line["shown"]] == [of["item"] for of in answer["ranking"]]
        assert line["propensity"] == [of["propensity"] for of in answer["ranking"]]
