"""The webhook and the Markdown page of a retraining run."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deep_interest.evaluation.significance import Interval
from deep_interest.retraining.fitting import FittedModel
from deep_interest.retraining.gate import Check, Metrics, Verdict
from deep_interest.retraining.plan import Plan
from deep_interest.retraining.summary import early_end, notify, run_summary, summary_page

SUMMARY = early_end("shop", "din", "failed", "a secret figure")


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """A server whose path is the status it answers with; ``requests`` has what it was asked."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    requests: list[tuple[str, str, bytes]] = []
    kinds: list[str | None] = []

    class Hook(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append((self.command, self.path, body))
            kinds.append(self.headers.get("Content-Type"))
            self.send_response(int(self.path[1:]))
            self.send_header("Location", "/200")
            self.end_headers()

        do_POST = do_GET = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    server.requests, server.kinds = requests, kinds
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_summary_is_posted_as_json(hook, caplog):
    notify(f"http://127.0.0.1:{hook.server_port}/200", SUMMARY, seconds=5)
    assert [(method, path, json.loads(body)) for method, path, body in hook.requests] == [
        ("POST", "/200", SUMMARY)
    ]
    assert hook.kinds == ["application/json"]
    assert not caplog.records


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_is_a_warning(hook, caplog, status):
    notify(f"http://127.0.0.1:{hook.server_port}/{status}", SUMMARY, seconds=5)
    assert [(method, path) for method, path, _ in hook.requests] == [("POST", f"/{status}")]
    assert f"the summary could not be posted (HTTP Error {status}" in caplog.text


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/hostname", "expected an http(s) address, found file"),
        ("ftp://127.0.0.1/x", "expected an http(s) address, found ftp"),
        ("https://127.0.0.1:1/", "Connection refused"),
        ("shop", "unknown url type"),
    ],
)
def test_an_address_that_is_not_http_or_not_there_is_a_warning(caplog, url, why):
    notify(url, SUMMARY, seconds=5)
    assert "the summary could not be posted (" in caplog.text
    assert why in caplog.text


PLAN = Plan(
    new=("2024-03-05", "2024-03-01"), late=("2024-03-01",), history=(), train=("2024-03-03", "2024-03-04"), held_out="2024-03-05",
    strategy="warm_start", parent="v1", trained=("2024-03-04",), records={}, changed=("2024-03-02", "2024-03-03"),
)  # fmt: skip
OURS = Metrics(0.75, 0.7, 0.25, 1.0, users=2, user_coverage=0.5, samples=10)
THEIRS = Metrics(float("nan"), 0.65, 0.3, 1.25, users=2, user_coverage=0.5, samples=10)
CHECKS = (
    Check("users with both classes", 123456, "at least 2", passed=True),
    Check("GAUC gain, lower end", float("nan"), "above 0", passed=False),
)
FITTED = FittedModel({}, {}, None, {}, {}, "identity", samples=12_345, seconds=6.54321)


def summary_of(*, promoted, champion=THEIRS, plan=PLAN):
    verdict = Verdict(promoted, CHECKS, OURS, champion, Interval(0.1, 0.05, 0.15, 0.01))
    return run_summary("shop", "din", plan, FITTED, verdict, "v2")


@pytest.mark.parametrize(("promoted", "outcome", "code"), [(True, "promoted", 0), (False, "refused", 11)])
def test_a_summary_has_every_fact_of_a_run(promoted, outcome, code):
    summary = summary_of(promoted=promoted)
    finished = datetime.fromisoformat(summary.pop("finished"))
    assert abs((datetime.now(UTC) - finished).total_seconds()) < 60
    assert finished.microsecond == 0
    assert summary == {
        "dataset": "shop", "model": "din", "outcome": outcome, "exit_code": code, "version": "v2", "champion_before": "v1",
        "strategy": "warm_start",
        "days": {
            "new": ["2024-03-05", "2024-03-01"], "late": ["2024-03-01"], "changed": ["2024-03-02", "2024-03-03"],
            "trained_on": ["2024-03-03", "2024-03-04"], "held_out": "2024-03-05",
        },
        "cost": {"samples": 12_345, "seconds": 6.543},
        "promoted": promoted,
        "checks": [
            {"name": "users with both classes", "found": 123456, "expected": "at least 2", "passed": True},
            {"name": "GAUC gain, lower end", "found": None, "expected": "above 0", "passed": False},
        ],
        "challenger": {
            "gauc": 0.75, "auc": 0.7, "logloss": 0.25, "calibration": 1.0, "users": 2, "user_coverage": 0.5, "samples": 10,
        },
        "champion": {
            "gauc": None, "auc": 0.65, "logloss": 0.3, "calibration": 1.25, "users": 2, "user_coverage": 0.5, "samples": 10,
        },
        "precision": None,
        "groups": [],
        "segments": [],
        "calibration": None,
        "delayed_clicks": None,
        "gain": {"difference": 0.1, "low": 0.05, "high": 0.15, "p_value": 0.01},
    }  # fmt: skip


def test_the_whole_page_of_a_refused_run():
    summary = summary_of(promoted=False) | {"finished": "2024-03-06T01:02:03+00:00"}
    assert (
        summary_page(summary)
        == """\
# shop.din: refused

2024-03-06T01:02:03+00:00, exit code 11.

Version `v2`, strategy warm start, previous champion: v1. New days: 2024-03-05, 2024-03-01 (late: 2024-03-01). \
Trained on 2024-03-03, 2024-03-04 (12,345 samples, 6.5 s), evaluated on 2024-03-05.

The files of 2024-03-02, 2024-03-03 have changed since an earlier run used them; this run uses the current files.

| | GAUC | AUC | log loss | calibration |
|---|---:|---:|---:|---:|
| challenger | 0.7500 | 0.7000 | 0.2500 | 1.0000 |
| champion | – | 0.6500 | 0.3000 | 1.2500 |

| check | found | expected | passed |
|---|---:|---|---|
| users with both classes | 1.2346e+05 | at least 2 | yes |
| GAUC gain, lower end | – | above 0 | **no** |
"""
    )


def test_the_page_of_a_run_with_rules_says_which_rows_came_and_went():
    rows = {
        "item_id": {
            "champion": 12_000, "kept": 11_000, "evicted": 1_000, "admitted": 500, "rows": 11_500, "waiting": 7,
            "megabytes_champion": 2.304, "megabytes": 2.208,
        }
    }  # fmt: skip
    verdict = Verdict(True, CHECKS, OURS, THEIRS, Interval(0.1, 0.05, 0.15, 0.01))
    summary = run_summary("shop", "din", PLAN, FITTED, verdict, "v2", rows=rows)
    assert summary["rows"] == rows
    line = "| item_id | 12,000 | 11,000 | 1,000 | 500 | 11,500 | 7 | 2.3 | 2.21 |"
    assert line in summary_page(summary).split("\n")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            {"method": "isotonic", "negatives_kept": 1.0},
            "Isotonic calibration: predicted over observed CTR 1.120 before, 1.010 after. Half of the users of the day calibrate; log loss and "
            "calibration are of the other half.",
        ),
        (
            {"method": "sampling", "negatives_kept": 0.25},
            "Corrected for sampled negatives (0.25 kept): predicted over observed CTR 1.120 before, 1.010 after.",
        ),
    ],
)  # fmt: skip
def test_the_page_says_what_the_calibration_has_changed(facts, sentence):
    whole = {"model": [1.12, 1.0, 1.2], "served": [1.01, 0.9, 1.1]}
    page = summary_page(summary_of(promoted=True) | {"calibration": facts, "segments": [whole]})
    assert f"\n\n{sentence}\n\n" in page


def test_the_page_of_a_first_run_names_no_champion_and_no_late_or_changed_day():
    plan = replace(PLAN, late=(), changed=(), parent=None, strategy="full_window")
    page = summary_page(summary_of(promoted=True, champion=None, plan=plan)).split("\n")
    assert page[0] == "# shop.din: promoted"
    assert page[4:7] == [
        "Version `v2`, strategy full window, previous champion: none. New days: 2024-03-05, 2024-03-01. "
        "Trained on 2024-03-03, 2024-03-04 (12,345 samples, 6.5 s), evaluated on 2024-03-05.",
        "",
        "| | GAUC | AUC | log loss | calibration |",
    ]
    assert page[8:11] == [
        "| challenger | 0.7500 | 0.7000 | 0.2500 | 1.0000 |",
        "",
        "| check | found | expected | passed |",
    ]


@pytest.mark.parametrize(
    ("outcome", "code"), [("failed", 1), ("nothing_new", 10), ("bad_data", 12), ("busy", 13)]
)
def test_the_page_of_a_run_that_ended_early_is_its_message(outcome, code):
    summary = early_end("shop", "din", outcome, "line 1\n```line 2")
    assert {**summary, "finished": ""} == {
        "dataset": "shop", "model": "din", "outcome": outcome, "exit_code": code, "finished": "", "message": "line 1\n```line 2",
    }  # fmt: skip
    assert summary_page(summary | {"finished": "now"}).split("\n") == [
        f"# shop.din: {outcome.replace('_', ' ')}", "", f"now, exit code {code}.", "", "```", "line 1", "'''line 2", "```", "",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_webhook_that_does_not_answer_in_time_is_a_warning(caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        notify(f"http://127.0.0.1:{silent.getsockname()[1]}/", SUMMARY, seconds=0.2)
        assert time.monotonic() - start < 10
    assert "the summary could not be posted (timed out)" in caplog.text
