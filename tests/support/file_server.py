"""File server on loopback with ranges, ETags and configurable failures."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """State of the server, which tests change while it runs.

    Attributes:
        files: contents by path, such as ``/ml-1m.zip``.
        ranges: whether the server supports ``Range``.
        tags: whether the server sends an ETag.
        break_after: number of bytes of a body after which the connection is closed; None to send all.
        seconds_per_block: pause after each 64 KiB in seconds.
        requests: ``(path, Range header or None, status)`` of each response.
        sent: total number of body bytes sent.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    tags: bool = True
    break_after: int | None = None
    seconds_per_block: float = 0.0
    requests: list[tuple[str, str | None, int]] = field(default_factory=list)
    sent: int = 0
    address: str = ""

    def url(self, path: str) -> str:
        return f"{self.address}{path}"


@contextmanager
def serve() -> Iterator[FileServer]:
    """Run a `FileServer` in threads until the block ends."""
    state = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, state)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def _answer(handler: BaseHTTPRequestHandler, state: FileServer) -> None:
    content = state.files.get(handler.path)
    wanted = handler.headers.get("Range")
    if content is None:
        state.requests.append((handler.path, wanted, 404))
        handler.send_error(404)
        return
    tag = f'"{hashlib.md5(content).hexdigest()}"'
    start, status = 0, 200
    condition = handler.headers.get("If-Range")
    if wanted and state.ranges and condition in (None, tag):
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        status = 206 if start < len(content) else 416
    state.requests.append((handler.path, wanted, status))
    body = content[start:] if status != 416 else b""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    if status == 206:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    if state.tags:
        handler.send_header("ETag", tag)
    handler.end_headers()
    _send(handler, body, state)


def _send(handler: BaseHTTPRequestHandler, body: bytes, state: FileServer) -> None:
    end = len(body) if state.break_after is None else min(state.break_after, len(body))
    for position in range(0, end, 1 << 16):
        block = body[position : min(position + (1 << 16), end)]
        try:
            handler.wfile.write(block)
        except OSError:  # the client was killed
            break
        state.sent += len(block)
        time.sleep(state.seconds_per_block)
    if end < len(body):
        handler.close_connection = True
