"""Local copies of an object store, here fsspec's file system in memory."""

import pytest

from deep_interest.errors import InputError
from deep_interest.io.mirror import Mirror


@pytest.fixture
def store(memory):
    for name in ("a", "b", "sub/c"):
        memory.pipe(f"/bucket/days/{name}", name.encode())
    return memory


@pytest.fixture
def copied(store, monkeypatch):
    """Names of the files that are copied from the store."""
    names, get_file = [], store.get_file

    def record(source, target, **options):
        names.append(source.removeprefix("/bucket/days/"))
        get_file(source, target, **options)

    monkeypatch.setattr(store, "get_file", record)
    return names


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".mirror.json"
    }


def test_only_changed_files_are_copied_again_and_removed_ones_disappear(store, copied, tmp_path):
    assert contents(Mirror(store, "/bucket/days", tmp_path).pull()) == {"a": "a", "b": "b", "sub/c": "sub/c"}
    copied.clear()
    store.pipe("/bucket/days/a", b"new")
    store.rm("/bucket/days/sub", recursive=True)
    Mirror(store, "/bucket/days", tmp_path).pull()
    assert copied == ["a"]
    assert contents(tmp_path) == {"a": "new", "b": "b"}
    assert not (tmp_path / "sub").exists()


def test_a_single_file_is_copied_with_its_time(store, copied, tmp_path):
    mirror = Mirror(store, "/bucket/days", tmp_path)
    for _ in range(2):
        assert mirror.pull_file("b").read_text() == "b"
    assert copied == ["b"]
    assert (tmp_path / "b").stat().st_mtime == pytest.approx(store.modified("/bucket/days/b").timestamp())


def test_an_upload_that_fails_is_undone_by_the_next_pull(store, copied, tmp_path, monkeypatch):
    mirror = Mirror(store, "/bucket/days", tmp_path)
    mirror.pull()
    copied.clear()
    (tmp_path / "a").write_text("mine")
    (tmp_path / "d").write_text("mine")
    with monkeypatch.context() as broken:
        broken.setattr(store, "put_file", lambda *_: (_ for _ in ()).throw(OSError("no connection")))
        with pytest.raises(OSError, match="no connection"):
            mirror.push("a", "d")
    assert contents(Mirror(store, "/bucket/days", tmp_path).pull()) == {"a": "a", "b": "b", "sub/c": "sub/c"}


def test_uploaded_files_are_not_copied_back_and_folders_are_deleted(store, copied, tmp_path):
    mirror = Mirror(store, "/bucket/days", tmp_path)
    mirror.pull()
    copied.clear()
    (tmp_path / "d").write_text("mine")
    mirror.push("d")
    mirror.remove("sub")
    mirror.pull()
    assert copied == []
    assert sorted(store.find("/bucket/days")) == ["/bucket/days/a", "/bucket/days/b", "/bucket/days/d"]
    assert contents(tmp_path) == {"a": "a", "b": "b", "d": "mine"}


def test_a_name_that_leads_out_of_the_folder_is_refused(store, tmp_path, monkeypatch):
    info = {"size": 1, "ETag": "x"}
    monkeypatch.setattr(store, "find", lambda path, detail: {"/bucket/days/../../outside": info})
    with pytest.raises(InputError, match=r"bucket/days/\.\./\.\./outside: names with `\.\.` are not read"):
        Mirror(store, "/bucket/days", tmp_path / "copy").pull()
    assert not (tmp_path / "outside").exists() and not (tmp_path / "copy").exists()
