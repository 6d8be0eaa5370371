"""Served scores compared with batch scoring: equal ones pass, changed ones are found."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from support.service import COLUMNS, LOG_END, STANDARDISED, make_snapshot, prepared, running, snapshot_of

from deep_interest.errors import InputError
from deep_interest.retraining.parity import compare_served, read_request_log
from deep_interest.service.deployment import Serving

pytestmark = pytest.mark.slow  # a server for each model


def serve(folder, model, columns=COLUMNS):
    """Send all kinds of requests to a service that logs them."""
    settings = prepared(folder, versions=(), request_log=folder / "requests")
    Serving(primary=make_snapshot(settings, model=model, columns=columns)).write(settings.serving_file)
    with running(settings) as client:
        event = {"user": "cem", "item": 10, "time": LOG_END + 3, "columns": {"action": "buy"}}
        client.post("/events", {"events": [event]})
        for user in ("ann", "bob", "cem", "eve", None):
            client.ctr(user)
            client.ctr(user, items=(10, 99, 10), time=LOG_END + 500)
            client.ctr(user, items=(12,), history=[])
            client.ctr(user, items=(12, 13), history=[10, 77, 11], context={"hour": [10, 99]})
    return settings


def compare(settings, *, tolerance=1e-6):
    snapshot = snapshot_of(settings)
    return compare_served(
        read_request_log(settings.request_log), lambda _: snapshot.version, lambda _: (snapshot.encoder, snapshot.features.items),
        tolerance=tolerance,
    )  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return serve(tmp_path_factory.mktemp("service"), "din")


@pytest.mark.parametrize("columns", [COLUMNS, STANDARDISED], ids=["categories", "numbers"])
@pytest.mark.parametrize("model", ["base", "dien", "bst", "sdim"])
def test_the_scores_of_other_models_are_equal(tmp_path, model, columns):
    assert compare(serve(tmp_path, model, columns))["passed"]


def test_equal_scores_pass(served):
    parity = compare(served)
    assert parity["passed"]
    assert parity["largest_difference"] < 1e-6
    assert (parity["requests"], parity["candidates"], parity["versions"]) == (20, 5 * (6 + 3 + 1 + 2), ["v1"])
    assert (parity["other_candidate_codes"], parity["other_context_codes"]) == (0, 0)


def changed(served, folder, change):
    """A copy of the log with one changed line."""
    (file,) = served.request_log.glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines[3])
    folder.mkdir()
    (folder / "requests.1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return SimpleNamespace(request_log=folder, snapshots=served.snapshots), lines[3]["request_id"]


@pytest.mark.parametrize("difference", [1e-5, float("nan")])
def test_a_changed_score_is_found(served, tmp_path, difference):
    def change(line):
        line["ctr"][-1] += difference

    settings, request_id = changed(served, tmp_path / "log", change)
    parity = compare(settings)
    assert not parity["passed"]
    assert parity["differing_requests"] == [request_id]


@pytest.mark.parametrize(
    ("group", "field"), [("history", "item_id"), ("history", "gap"), ("profile", "age"), ("context", "hour")]
)
def test_a_changed_feature_is_found(served, tmp_path, group, field):
    def change(line):
        (file,) = served.request_log.glob("*.jsonl")
        line.update(json.loads(file.read_text().splitlines()[0]))
        codes = line["features"][group][field]
        codes[:] = [1 if code != 1 else 2 for code in codes]

    settings, _ = changed(served, tmp_path / "log", change)
    assert not compare(settings)["passed"]


def test_an_item_that_has_changed_since_is_counted(served):
    snapshot = snapshot_of(served)
    items = {name: codes.copy() for name, codes in snapshot.features.items.items()}
    items["category"][snapshot.encoder.item_codes([12], "items")] = 1
    parity = compare_served(
        read_request_log(served.request_log),
        lambda _: snapshot.version,
        lambda _: (snapshot.encoder, items),
        tolerance=1e-6,
    )
    assert parity["passed"]
    assert parity["other_candidate_codes"] == 15  # all requests but those for 10, 99 and 10


def test_the_unfinished_line_of_a_killed_worker_is_left_out(served, tmp_path):
    (file,) = served.request_log.glob("*.jsonl")
    (tmp_path / "requests.1.jsonl").write_text(file.read_text() + '{"request_id": "r')
    assert len(list(read_request_log(tmp_path))) == 20


def test_another_file_is_an_error(tmp_path):
    (tmp_path / "requests.1.jsonl").write_text("{}\n")
    with pytest.raises(
        InputError, match=r"requests.1.jsonl, line 1: this is not a line of the service's request log"
    ):
        list(read_request_log(tmp_path))


def test_an_empty_log_is_an_error(served, tmp_path):
    with pytest.raises(InputError, match="the request log is empty"):
        compare(SimpleNamespace(request_log=tmp_path, snapshots=served.snapshots))


def test_sets_of_values_are_refused(served):
    snapshot = snapshot_of(served)
    version = SimpleNamespace(id="v1", schema=SimpleNamespace(multi_hot=frozenset({"tags"})))
    with pytest.raises(InputError, match="value sets of the multi-hot tags"):
        compare_served(
            read_request_log(served.request_log),
            lambda _: version,
            lambda _: (snapshot.encoder, {}),
            tolerance=np.inf,
        )
