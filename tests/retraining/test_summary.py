"""The webhook and the Markdown page of a retraining run."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deep_interest.retraining.summary import early_end, notify

SUMMARY = early_end("shop", "din", "failed", "a secret figure")


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """A server whose path is the status it answers with; ``requests`` has what it was asked."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    requests: list[tuple[str, str, bytes]] = []

    class Hook(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append((self.command, self.path, body))
            self.send_response(int(self.path[1:]))
            self.send_header("Location", "/200")
            self.end_headers()

        do_POST = do_GET = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    server.requests = requests
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_summary_is_posted_as_json(hook, caplog):
    notify(f"http://127.0.0.1:{hook.server_port}/200", SUMMARY, seconds=5)
    assert [(method, path, json.loads(body)) for method, path, body in hook.requests] == [
        ("POST", "/200", SUMMARY)
    ]
    assert not caplog.records


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_is_a_warning(hook, caplog, status):
    notify(f"http://127.0.0.1:{hook.server_port}/{status}", SUMMARY, seconds=5)
    assert [(method, path) for method, path, _ in hook.requests] == [("POST", f"/{status}")]
    assert f"the summary could not be posted (HTTP Error {status}" in caplog.text


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "shop"])
def test_an_address_that_is_not_http_is_a_warning(caplog, url):
    notify(url, SUMMARY, seconds=5)
    assert "the summary could not be posted" in caplog.text
