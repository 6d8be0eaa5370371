"""Downloads refuse redirects to unencrypted addresses."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.file_server import FileServer, serve

from deep_interest.errors import InputError
from deep_interest.sources.downloads import RemoteFile
from deep_interest.sources.fetch import fetch


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve() as state:
        yield state


def ignore(_: str) -> None:
    pass


@pytest.fixture
def redirecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """An https server that redirects every request to its attribute ``target``."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", self.server.target)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("redirect_checksum", [False, True])
def test_a_redirect_to_an_unencrypted_address_is_refused(
    redirecting: HTTPServer, server: FileServer, tmp_path: Path, redirect_checksum: bool
) -> None:
    redirecting.target = server.url("/a.json.gz")
    secure = f"https://127.0.0.1:{redirecting.server_port}/a.json.gz"
    file = RemoteFile(
        server.url("/a.json.gz") if redirect_checksum else secure,
        "a.json.gz",
        secure if redirect_checksum else None,
    )
    with pytest.raises(
        InputError, match=r"^https://.* redirects to http://.* is not encrypted; the file was not downloaded"
    ):
        fetch(file, tmp_path / "raw", report=ignore)
    assert server.requests == []
