"""Downloads from a server on loopback: resumed, verified, and renamed only when complete."""

import errno
import gzip
import hashlib
import io
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
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
    """A .zip file with a published MD5."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("ml/ratings.dat", NOISE)
    server.files["/ml.zip"] = content.getvalue()
    server.files["/ml.zip.md5"] = f"MD5 (ml.zip) = {hashlib.md5(content.getvalue()).hexdigest()}\n".encode()
    return RemoteFile(server.url("/ml.zip"), "movielens/ml.zip", server.url("/ml.zip.md5"))


@pytest.fixture
def reviews(server: FileServer) -> RemoteFile:
    """A .gz file without a published checksum."""
    return RemoteFile(server.url("/a.json.gz"), "amazon/a.json.gz")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ignore(_: str) -> None:
    pass


def interrupt_download(server: FileServer, file: RemoteFile, root: Path) -> None:
    """Interrupt a download after 300,000 bytes."""
    server.break_after = BREAK
    with pytest.raises(InputError, match=r"the connection failed or was interrupted.*again to resume"):
        fetch(file, root, report=ignore)
    server.break_after = None


def test_a_file_with_a_published_checksum_is_fetched_and_verified(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    lines: list[str] = []
    path = fetch(archive, tmp_path, report=lines.append)
    assert path == tmp_path / "movielens/ml.zip"
    assert path.read_bytes() == server.files["/ml.zip"]
    assert hashlib.md5(server.files["/ml.zip"]).hexdigest() in lines[-1]
    assert names(path.parent) == ["ml.zip"]


def test_a_file_without_a_published_checksum_is_verified_by_its_own(
    reviews: RemoteFile, tmp_path: Path
) -> None:
    lines: list[str] = []
    assert fetch(reviews, tmp_path, report=lines.append).read_bytes() == GZ
    assert hashlib.sha256(GZ).hexdigest() in lines[-1]


def test_a_complete_file_is_not_downloaded_again(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    lines: list[str] = []
    fetch(archive, tmp_path, report=lines.append)
    server.requests.clear()
    fetch(archive, tmp_path, report=lines.append)
    assert [path for path, _, _ in server.requests] == ["/ml.zip.md5"]
    assert "already downloaded (MD5" in lines[-1]


def test_a_complete_file_needs_no_network(archive: RemoteFile, tmp_path: Path) -> None:
    path = fetch(archive, tmp_path, report=ignore)
    offline = RemoteFile("http://127.0.0.1:9/ml.zip", "movielens/ml.zip", "http://127.0.0.1:9/ml.zip.md5")
    lines: list[str] = []
    assert fetch(offline, tmp_path, report=lines.append) == path
    assert "verified by the file's own checksums" in lines[-1]


def test_an_existing_file_that_is_damaged_or_different_is_not_changed(
    server: FileServer, archive: RemoteFile, reviews: RemoteFile, tmp_path: Path
) -> None:
    for file in (archive, reviews):
        path = tmp_path / file.path
        path.parent.mkdir()
        path.write_bytes(GZ[:1000])
        with pytest.raises(InputError, match="The file was not changed: move it away"):
            fetch(file, tmp_path, report=ignore)
        assert path.read_bytes() == GZ[:1000]


@pytest.mark.parametrize("tags", [True, False])
def test_an_interrupted_download_resumes_where_it_stopped(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, tags: bool
) -> None:
    server.tags = tags
    interrupt_download(server, reviews, tmp_path)
    assert names(tmp_path / "amazon") == ["a.json.gz.part", "a.json.gz.part.json"]
    assert (tmp_path / "amazon/a.json.gz.part").read_bytes() == GZ[:BREAK]
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ
    assert server.requests[-1] == ("/a.json.gz", f"bytes={BREAK}-", 206)
    assert server.sent == len(GZ)
    assert names(tmp_path / "amazon") == ["a.json.gz"]


def test_a_download_may_be_interrupted_several_times(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    for _ in range(3):
        interrupt_download(server, reviews, tmp_path)
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ
    assert server.sent == len(GZ)


def test_a_download_starts_over_if_the_server_ignores_ranges(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    interrupt_download(server, reviews, tmp_path)
    server.ranges = False
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("size", [200_000, 400_000])
def test_a_download_starts_over_if_the_servers_file_has_changed(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, tags: bool, size: int
) -> None:
    server.tags = tags
    interrupt_download(server, reviews, tmp_path)
    server.files["/a.json.gz"] = gzip.compress(NOISE[-size:])
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == server.files["/a.json.gz"]


def test_a_part_of_unknown_origin_is_not_resumed(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    (tmp_path / "amazon").mkdir()
    (tmp_path / "amazon/a.json.gz.part").write_bytes(b"from elsewhere")
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ
    assert server.requests == [("/a.json.gz", None, 200)]


def test_a_complete_part_of_a_killed_run_is_verified_and_used(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("deep_interest.sources.fetch.finish", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            fetch(reviews, tmp_path, report=ignore)
    server.requests.clear()
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ
    assert server.requests == [("/a.json.gz", f"bytes={len(GZ)}-", 416)]


@pytest.mark.slow
def test_a_killed_download_resumes_where_it_stopped(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    server.seconds_per_block = 0.05
    script = (
        "import sys; from pathlib import Path; from deep_interest.sources.fetch import fetch; "
        "from deep_interest.sources.downloads import RemoteFile; "
        "fetch(RemoteFile(sys.argv[1], 'amazon/a.json.gz'), Path(sys.argv[2]), report=print)"
    )
    part = tmp_path / "amazon/a.json.gz.part"
    with subprocess.Popen(
        [sys.executable, "-c", script, reviews.url, str(tmp_path)], stdout=subprocess.PIPE
    ) as run:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    partial_size = part.stat().st_size
    assert 0 < partial_size < len(GZ)
    assert not (tmp_path / reviews.path).exists()
    server.seconds_per_block = 0
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ
    assert server.requests[-1] == ("/a.json.gz", f"bytes={partial_size}-", 206)


def test_a_file_with_a_wrong_checksum_is_deleted(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    server.files["/ml.zip.md5"] = b"0123456789abcdef0123456789abcdef  ml.zip\n"
    with pytest.raises(InputError, match=r"the publisher's is 0123456789abcdef0123456789abcdef.*was deleted"):
        fetch(archive, tmp_path, report=ignore)
    assert names(tmp_path / "movielens") == []


def test_a_gz_file_that_is_truncated_on_the_server_is_deleted(
    server: FileServer, reviews: RemoteFile, tmp_path: Path
) -> None:
    server.files["/a.json.gz"] = GZ[:-100]
    with pytest.raises(InputError, match=r"truncated or damaged.*was deleted"):
        fetch(reviews, tmp_path, report=ignore)
    assert names(tmp_path / "amazon") == []


def test_without_the_published_checksum_the_archives_own_is_used(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    del server.files["/ml.zip.md5"]
    lines: list[str] = []
    fetch(archive, tmp_path, report=lines.append)
    assert "verified by the file's own checksums, the publisher provides none" in lines[-1]


def test_a_refusal_or_an_unreachable_server_is_one_line(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/none.gz: the server responds with 404"):
        fetch(RemoteFile(server.url("/none.gz"), "none.gz"), tmp_path, report=ignore)
    with pytest.raises(InputError, match=r"^http://127.0.0.1:9/x.gz: the connection failed [^\n]*$"):
        fetch(RemoteFile("http://127.0.0.1:9/x.gz", "x.gz"), tmp_path, report=ignore)


@pytest.mark.slow
def test_a_silent_server_times_out(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_TIMEOUT", (1, 0.2))
    server.seconds_per_block = 1
    with pytest.raises(InputError, match=r"the server does not respond|was interrupted"):
        fetch(reviews, tmp_path, report=ignore)


def test_a_full_disk_is_one_line_and_keeps_the_downloaded_bytes(
    server: FileServer, reviews: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def no_space(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(transfer.tqdm, "update", no_space)
        with pytest.raises(InputError, match=r"cannot be written .No space left on device."):
            fetch(reviews, tmp_path, report=ignore)
    assert fetch(reviews, tmp_path, report=ignore).read_bytes() == GZ
    assert server.requests[-1][2] == 206


def test_every_public_file_is_downloaded_over_https() -> None:
    files = [file for download in DOWNLOADS.values() for file in download.files]
    assert all(file.url.startswith("https://") for file in files)
    assert all(file.md5_url is None or file.md5_url.startswith("https://") for file in files)


def test_a_pinned_checksum_is_not_requested_and_rejects_other_files(
    server: FileServer, archive: RemoteFile, tmp_path: Path
) -> None:
    other = "0" * 32
    server.files["/ml.zip.md5"] = f"{hashlib.md5(server.files['/ml.zip']).hexdigest()}  ml.zip".encode()
    with pytest.raises(InputError, match=rf"the publisher's is {other}.*was deleted"):
        fetch(RemoteFile(archive.url, archive.path, archive.md5_url, md5=other), tmp_path, report=ignore)
    assert [path for path, _, _ in server.requests] == ["/ml.zip"]
    actual = hashlib.md5(server.files["/ml.zip"]).hexdigest()
    fetch(RemoteFile(archive.url, archive.path, archive.md5_url, md5=actual), tmp_path, report=ignore)
    assert {path for path, _, _ in server.requests} == {"/ml.zip"}
