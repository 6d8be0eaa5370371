"""Downloads from a real server on loopback: resumed, verified, and never half a file under the whole one's name."""

import errno
import gzip
import hashlib
import io
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.file_server import FileServer, serve

from deep_interest.errors import InputError
from deep_interest.sources import transfer
from deep_interest.sources.downloads import DOWNLOADS, RemoteFile
from deep_interest.sources.fetch import fetch

NOISE = random.Random(0).randbytes(1_000_000)
GZ = gzip.compress(NOISE, compresslevel=1, mtime=0)
BREAK = 300_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve() as state:
        state.files["/a.json.gz"] = GZ
        yield state


@pytest.fixture
def archive(server: FileServer) -> RemoteFile:
    """A .zip with its published MD5."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("ml/ratings.dat", NOISE)
    server.files["/ml.zip"] = content.getvalue()
    server.files["/ml.zip.md5"] = f"MD5 (ml.zip) = {hashlib.md5(content.getvalue()).hexdigest()}\n".encode()
    return RemoteFile(server.url("/ml.zip"), "movielens/ml.zip", server.url("/ml.zip.md5"))


@pytest.fixture
def reviews(server: FileServer) -> RemoteFile:
    """A .gz without a published checksum."""
    return RemoteFile(server.url("/a.json.gz"), "amazon/a.json.gz")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def say_nothing(_: str) -> None:
    pass


def break_off(server: FileServer, file: RemoteFile, root: Path) -> None:
    """Let one download fail after 300,000 bytes."""
    server.break_after = BREAK
    with pytest.raises(InputError, match=r"the connection failed or broke off.*goes on from there"):
        fetch(file, root, say=say_nothing)
    server.break_after = None


def test_a_file_with_a_published_checksum_is_fetched_and_verified(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    said: list[str] = []
    path = fetch(archive, tmp_path, say=said.append)
    assert path == tmp_path / "movielens/ml.zip"
    assert path.read_bytes() == server.files["/ml.zip"]
    assert hashlib.md5(server.files["/ml.zip"]).hexdigest() in said[-1]
    assert names(path.parent) == ["ml.zip"]


def test_a_file_without_a_published_checksum_is_verified_by_its_own_and_its_sha256_is_said(
    reviews: RemoteFile, tmp_path: Path
) -> None:
    said: list[str] = []
    assert fetch(reviews, tmp_path, say=said.append).read_bytes() == GZ
    assert hashlib.sha256(GZ).hexdigest() in said[-1]


def test_a_whole_file_is_not_fetched_again(server: FileServer, archive: RemoteFile, tmp_path: Path) -> None:
    said: list[str] = []
    fetch(archive, tmp_path, say=said.append)
    server.requests.clear()
    fetch(archive, tmp_path, say=said.append)
    assert [path for path, _, _ in server.requests] == ["/ml.zip.md5"]
    assert "already there (md5" in said[-1]


def test_a_whole_file_needs_no_network(archive: RemoteFile, tmp_path: Path) -> None:
    path = fetch(archive, tmp_path, say=say_nothing)
    offline = RemoteFile("http://127.0.0.1:9/ml.zip", "movielens/ml.zip", "http://127.0.0.1:9/ml.zip.md5")
    said: list[str] = []
    assert fetch(offline, tmp_path, say=said.append) == path
    assert "whole by its own checksums" in said[-1]


def test_a_file_of_the_users_own_that_is_damaged_or_another_is_left_alone(
    server: FileServer, archive: RemoteFile, reviews: RemoteFile, tmp_path: Path
) -> None:
    for file in (archive, reviews):
        path = tmp_path / file.place
        path.parent.mkdir()
        path.write_bytes(GZ[:1000])
        with pytest.raises(InputError, match="It is left as it is: move it away"):
            fetch(file, tmp_path, say=say_nothing)
        assert path.read_bytes() == GZ[:1000]


@pytest.mark.parametrize("tags", [True, False])
def test_a_transfer_that_broke_off_goes_on_where_it_ended(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, tags: bool
) -> None:
    server.tags = tags
    break_off(server, reviews, tmp_path)
    assert names(tmp_path / "amazon") == ["a.json.gz.part", "a.json.gz.part.json"]
    assert (tmp_path / "amazon/a.json.gz.part").read_bytes() == GZ[:BREAK]
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ
    assert server.requests[-1] == ("/a.json.gz", f"bytes={BREAK}-", 206)
    assert server.sent == len(GZ)
    assert names(tmp_path / "amazon") == ["a.json.gz"]


def test_it_may_break_off_again_and_again(server: FileServer, reviews: RemoteFile, tmp_path: Path) -> None:
    for _ in range(3):
        break_off(server, reviews, tmp_path)
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ
    assert server.sent == len(GZ)


def test_it_begins_anew_where_the_server_ignores_ranges(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    break_off(server, reviews, tmp_path)
    server.ranges = False
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("size", [200_000, 400_000])
def test_it_begins_anew_where_the_servers_file_has_changed(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, tags: bool, size: int
) -> None:
    server.tags = tags
    break_off(server, reviews, tmp_path)
    server.files["/a.json.gz"] = gzip.compress(NOISE[-size:])
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == server.files["/a.json.gz"]


def test_bytes_of_unknown_origin_are_not_continued(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    (tmp_path / "amazon").mkdir()
    (tmp_path / "amazon/a.json.gz.part").write_bytes(b"from elsewhere")
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ
    assert server.requests == [("/a.json.gz", None, 200)]


def test_a_part_that_was_complete_when_the_run_was_killed_is_verified_and_taken(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("deep_interest.sources.fetch.finish", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            fetch(reviews, tmp_path, say=say_nothing)
    server.requests.clear()
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ
    assert server.requests == [("/a.json.gz", f"bytes={len(GZ)}-", 416)]


def test_a_killed_download_goes_on_where_it_ended(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    server.seconds_per_block = 0.05
    script = (
        "import sys; from pathlib import Path; from deep_interest.sources.fetch import fetch; "
        "from deep_interest.sources.downloads import RemoteFile; "
        "fetch(RemoteFile(sys.argv[1], 'amazon/a.json.gz'), Path(sys.argv[2]), say=print)"
    )
    part = tmp_path / "amazon/a.json.gz.part"
    with subprocess.Popen(
        [sys.executable, "-c", script, reviews.url, str(tmp_path)], stdout=subprocess.PIPE
    ) as run:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    kept = part.stat().st_size
    assert 0 < kept < len(GZ)
    assert not (tmp_path / reviews.place).exists()
    server.seconds_per_block = 0
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ
    assert server.requests[-1] == ("/a.json.gz", f"bytes={kept}-", 206)


def test_a_wrong_checksum_throws_the_file_away(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    server.files["/ml.zip.md5"] = b"0123456789abcdef0123456789abcdef  ml.zip\n"
    with pytest.raises(InputError, match=r"the publisher's is 0123456789abcdef0123456789abcdef.*thrown away"):
        fetch(archive, tmp_path, say=say_nothing)
    assert names(tmp_path / "movielens") == []


def test_a_gz_that_the_server_itself_has_truncated_is_thrown_away(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    server.files["/a.json.gz"] = GZ[:-100]
    with pytest.raises(InputError, match=r"truncated or damaged.*thrown away"):
        fetch(reviews, tmp_path, say=say_nothing)
    assert names(tmp_path / "amazon") == []


def test_a_withdrawn_checksum_leaves_the_archives_own(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    del server.files["/ml.zip.md5"]
    said: list[str] = []
    fetch(archive, tmp_path, say=said.append)
    assert "whole by its own checksums, no other is published" in said[-1]


def test_a_refusal_and_an_unreachable_server_are_one_line_each(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/none.gz: the server answers 404"):
        fetch(RemoteFile(server.url("/none.gz"), "none.gz"), tmp_path, say=say_nothing)
    with pytest.raises(InputError, match=r"^http://127.0.0.1:9/x.gz: the connection failed [^\n]*$"):
        fetch(RemoteFile("http://127.0.0.1:9/x.gz", "x.gz"), tmp_path, say=say_nothing)


def test_a_silent_server_is_given_up(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_TIMEOUT", (1, 0.2))
    server.seconds_per_block = 1
    with pytest.raises(InputError, match=r"the server does not answer|broke off"):
        fetch(reviews, tmp_path, say=say_nothing)


def test_a_full_disk_is_one_line_and_keeps_what_arrived(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def no_space(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(transfer.tqdm, "update", no_space)
        with pytest.raises(InputError, match=r"cannot be written .No space left on device."):
            fetch(reviews, tmp_path, say=say_nothing)
    assert fetch(reviews, tmp_path, say=say_nothing).read_bytes() == GZ
    assert server.requests[-1][2] == 206


def test_every_public_file_is_fetched_over_https() -> None:
    files = [file for download in DOWNLOADS.values() for file in download.files]
    assert all(file.url.startswith("https://") for file in files)
    assert all(file.md5_url is None or file.md5_url.startswith("https://") for file in files)


def test_a_pinned_checksum_is_not_asked_of_the_server_and_refuses_another_file(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    other = "0" * 32
    server.files["/ml.zip.md5"] = f"{hashlib.md5(server.files['/ml.zip']).hexdigest()}  ml.zip".encode()
    with pytest.raises(InputError, match=rf"the publisher's is {other}.*thrown away"):
        fetch(RemoteFile(archive.url, archive.place, archive.md5_url, md5=other), tmp_path, say=say_nothing)
    assert [path for path, _, _ in server.requests] == ["/ml.zip"]
    right = hashlib.md5(server.files["/ml.zip"]).hexdigest()
    fetch(RemoteFile(archive.url, archive.place, archive.md5_url, md5=right), tmp_path, say=say_nothing)
    assert {path for path, _, _ in server.requests} == {"/ml.zip"}


@pytest.fixture
def redirecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """An https server that redirects every request to its attribute ``target``."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
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


@pytest.mark.parametrize("of_checksum", [False, True])
def test_a_redirect_may_not_leave_https(
    redirecting: HTTPServer, server: FileServer, tmp_path: Path, of_checksum: bool
) -> None:
    redirecting.target = server.url("/a.json.gz")
    secure = f"https://127.0.0.1:{redirecting.server_port}/a.json.gz"
    file = RemoteFile(
        server.url("/a.json.gz") if of_checksum else secure, "a.json.gz", secure if of_checksum else None
    )
    with pytest.raises(
        InputError, match=r"^https://.* redirects to http://.* is not encrypted; the file was not fetched"
    ):
        fetch(file, tmp_path / "raw", say=say_nothing)
    assert server.requests == []
