"""A folder in an object store is read whole, or not at all."""

import pytest

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import SUMS
from deep_interest.io.remote_folder import RemoteFolder


def write(folder, **files):
    with atomic_path(folder, directory=True) as target:
        for name, text in files.items():
            (target / name).write_text(text)


def test_a_folder_is_uploaded_with_its_checksums_and_copied_once(memory, tmp_path):
    remote = RemoteFolder(memory, "/shop/samples", "memory://shop/samples")
    assert not remote.exists()
    write(tmp_path / "a", one="1", two="2")
    remote.push(tmp_path / "a")
    remote.pull(tmp_path / "b")
    assert {file.name for file in (tmp_path / "b").iterdir()} == {"one", "two", SUMS}
    before = (tmp_path / "b").stat().st_ino
    remote.pull(tmp_path / "b")
    assert (tmp_path / "b").stat().st_ino == before


def test_a_new_upload_replaces_all_files(memory, tmp_path):
    remote = RemoteFolder(memory, "/shop/samples", "memory://shop/samples")
    write(tmp_path / "a", one="1", two="2")
    remote.push(tmp_path / "a")
    remote.pull(tmp_path / "b")
    write(tmp_path / "a", two="changed")
    remote.push(tmp_path / "a")
    remote.pull(tmp_path / "b")
    assert {file.name for file in (tmp_path / "b").iterdir()} == {"two", SUMS}
    assert (tmp_path / "b/two").read_text() == "changed"


def test_an_upload_that_was_killed_is_not_read(memory, tmp_path):
    remote = RemoteFolder(memory, "/shop/samples", "memory://shop/samples")
    write(tmp_path / "a", one="1", two="2")
    remote.push(tmp_path / "a")
    memory.rm_file(f"/shop/samples/{SUMS}")  # what an upload does first
    memory.pipe_file("/shop/samples/one", b"half")
    assert not remote.exists()


def test_files_of_two_uploads_are_an_error_and_the_local_copy_stays(memory, tmp_path):
    remote = RemoteFolder(memory, "/shop/samples", "memory://shop/samples")
    write(tmp_path / "a", one="1", two="2")
    remote.push(tmp_path / "a")
    remote.pull(tmp_path / "b")
    write(tmp_path / "a", one="new", two="new")
    remote.push(tmp_path / "a")
    memory.pipe_file("/shop/samples/one", b"of another upload")
    with pytest.raises(
        InputError, match=r"memory://shop/samples: one does not match its checksum.*another run"
    ):
        remote.pull(tmp_path / "b")
    assert (tmp_path / "b/one").read_text() == "1"
