import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path, clear_unfinished, clear_unfinished_below, new_workspace
from deep_interest.io.checksums import damage_of


def test_the_new_file_takes_the_old_ones_place(tmp_path):
    target = tmp_path / "deep/table.csv"
    for text in ("old", "new"):
        with atomic_path(target) as temporary:
            temporary.write_text(text)
            assert not target.exists() or target.read_text() == "old"
    assert target.read_text() == "new"
    assert [file.name for file in target.parent.iterdir()] == ["table.csv"]


def test_a_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "log"
    for names in (["a", "b"], ["c"]):
        with atomic_path(target, directory=True) as folder:
            for name in names:
                (folder / name).write_text(name)
    assert sorted(file.name for file in target.iterdir()) == ["SHA256SUMS", "c"]


def test_what_killed_writers_have_left_is_removed_and_nothing_else(tmp_path):
    for name in (".fit.pt.k1.part", ".fit.pt.k2.part", ".other.pt.k3.part", "fit.pt"):
        (tmp_path / name).write_text("half")
    (tmp_path / ".fit.pt.k4.old.part").mkdir()
    (tmp_path / "..fit.pt.sha256.k5.part").write_text("half")
    clear_unfinished(tmp_path / "fit.pt")
    clear_unfinished(tmp_path / "nowhere/fit.pt")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".other.pt.k3.part", "fit.pt"]


@pytest.mark.parametrize("directory", [False, True])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, directory):
    target = tmp_path / "x"
    target.write_text("old")
    with pytest.raises(KeyError), atomic_path(target, directory=directory) as temporary:
        (temporary / "part" if directory else temporary).write_text("half")
        raise KeyError
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space and run"),
        (errno.EDQUOT, "the disk quota is used up; free some space and run"),
        (errno.EFBIG, r"the system allows no file so large; raise the limit \(ulimit -f\) and run"),
    ],
)
def test_a_full_disk_is_reported_with_what_to_do(tmp_path, number, message):
    with pytest.raises(InputError, match=rf"x: {message}"), atomic_path(tmp_path / "x"):
        raise OSError(number, "as the system says it")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_recognised_behind_the_error_that_it_leads_to(tmp_path):
    """Like torch, which reports the wrong length of the file when it closes it."""
    with (
        pytest.raises(InputError, match=r"x: the disk is full; free some space"),
        atomic_path(tmp_path / "x"),
    ):
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            raise RuntimeError("unexpected pos 1152 vs 1046")


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    target = tmp_path / "x"
    target.write_text("old")
    script = (
        "import sys, time; from deep_interest.io.atomic import atomic_path\n"
        f"with atomic_path({str(target)!r}) as path:\n"
        "    path.write_text('half'); print('writing', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert target.read_text() == "old"


def test_a_kill_while_a_folder_is_replaced_never_leaves_half_of_it(tmp_path):
    """The old folder is moved aside whole: killed while it is deleted, the new one is complete."""
    target = tmp_path / "log"
    script = (
        "import os, shutil, signal; from deep_interest.io.atomic import atomic_path\n"
        f"for names in (['a', 'b', 'c'], ['x', 'y', 'z']):\n"
        f"    with atomic_path({str(target)!r}, directory=True) as folder:\n"
        "        [(folder / name).write_text(name) for name in names]\n"
        "        shutil.rmtree = lambda path, **_: (os.remove(next(path.iterdir())), os.kill(os.getpid(), signal.SIGKILL))"
    )
    process = subprocess.run([sys.executable, "-c", script], check=False)
    assert process.returncode == -signal.SIGKILL
    found = sorted(file.name for file in target.iterdir())
    assert found in (["SHA256SUMS", "a", "b", "c"], ["SHA256SUMS", "x", "y", "z"])


@pytest.mark.parametrize("foreign", ["days/", "notes.txt"])
def test_a_folder_with_files_of_others_is_not_replaced(tmp_path, foreign):
    target = tmp_path / "log"
    with atomic_path(target, directory=True) as folder:
        (folder / "a").write_text("old")
    (target / foreign).mkdir() if foreign.endswith("/") else (target / foreign).write_text("mine")
    with pytest.raises(InputError, match=rf"log: the folder also holds {foreign.rstrip('/')}, which this"):
        with atomic_path(target, directory=True) as folder:
            (folder / "a").write_text("new")
    assert (target / "a").read_text() == "old"
    assert (target / foreign).exists()
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


def test_a_folder_of_the_same_files_without_checksums_is_replaced(tmp_path):
    """As after its list of checksums was deleted: the next run writes it again."""
    target = tmp_path / "log"
    for text in ("old", "new"):
        with atomic_path(target, directory=True) as folder:
            (folder / "a").write_text(text)
        (target / "SHA256SUMS").unlink()
    assert (target / "a").read_text() == "new"


def test_a_file_in_the_place_of_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "log").write_text("mine")
    with pytest.raises(InputError, match="log: found a file, expected a folder"):
        with atomic_path(tmp_path / "log", directory=True) as folder:
            (folder / "a").write_text("new")
    assert (tmp_path / "log").read_text() == "mine"


@pytest.mark.parametrize("directory", [False, True])
def test_what_a_killed_writer_has_left_goes_and_what_a_live_one_writes_stays(tmp_path, directory):
    target = tmp_path / "deep/x"
    script = (
        "import time; from deep_interest.io.atomic import atomic_path\n"
        f"with atomic_path({str(target)!r}, directory={directory}): print('writing', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    (unfinished,) = target.parent.iterdir()
    clear_unfinished(target)
    clear_unfinished_below(tmp_path)
    assert unfinished.exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert unfinished.exists()
    with atomic_path(target, directory=directory) as temporary:
        assert not unfinished.exists()
        (temporary / "part" if directory else temporary).write_text("whole")
    assert [file.name for file in target.parent.iterdir()] == ["x"]


def test_the_workspace_of_a_killed_run_goes_and_that_of_a_live_one_stays(tmp_path):
    script = (
        "import pathlib, time; from deep_interest.io.atomic import new_workspace\n"
        f"print(new_workspace(pathlib.Path({str(tmp_path)!r}), 'ingest'), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    workspace = Path(process.stdout.readline().strip())
    own = new_workspace(tmp_path, "ingest")
    (workspace / "rows.parquet").write_text("half")
    clear_unfinished_below(tmp_path)
    assert own.is_dir()
    assert (workspace / "rows.parquet").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    clear_unfinished_below(tmp_path)
    assert list(tmp_path.iterdir()) == [own]


@pytest.mark.slow
def test_folders_are_cleared_while_others_are_written(tmp_path):
    """Neither process fails when the other one has renamed or removed a folder."""
    script = (
        "import pathlib, time; from deep_interest.io.atomic import atomic_path\n"
        f"end = time.monotonic() + 3; target = pathlib.Path({str(tmp_path)!r})\n"
        "print('writing', flush=True)\n"
        "while time.monotonic() < end:\n"
        "    with atomic_path(target / 'log', directory=True) as log, atomic_path(log / 'a') as a: a.write_text('whole')"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    while process.poll() is None:
        clear_unfinished_below(tmp_path)
    assert process.returncode == 0
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["SHA256SUMS", "a", "log"]


def test_a_folder_that_is_cleared_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    mkdtemp, made = tempfile.mkdtemp, []

    def cleared_at_first(**options):
        name = mkdtemp(**options)
        made.append(name)
        if len(made) == 1:
            os.rmdir(name)
        return name

    monkeypatch.setattr(tempfile, "mkdtemp", cleared_at_first)
    assert str(new_workspace(tmp_path, "ingest")) == made[1]


def test_removed_workspaces_hold_no_handles(tmp_path):
    before = psutil.Process().num_fds()
    for _ in range(20):
        shutil.rmtree(new_workspace(tmp_path, "ingest"))
    assert psutil.Process().num_fds() <= before + 1


def test_a_folder_of_folders_has_the_checksums_of_each(tmp_path):
    with atomic_path(tmp_path / "snapshot", directory=True) as snapshot:
        with atomic_path(snapshot / "log", directory=True) as log:
            (log / "offsets.npy").write_text("offsets")
        clear_unfinished_below(tmp_path)
    assert sorted(file.name for file in tmp_path.rglob("*")) == [
        "SHA256SUMS",
        "log",
        "offsets.npy",
        "snapshot",
    ]
    assert not damage_of(tmp_path / "snapshot/log")
    (tmp_path / "snapshot/log/offsets.npy").write_text("changed")
    assert "offsets.npy" in damage_of(tmp_path / "snapshot/log")


def test_leftovers_are_cleared_at_any_depth_and_finished_files_stay(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/.x.k1.part").write_text("half")
    (tmp_path / "a/.log.k2.old.part/.inner.part").mkdir(parents=True)
    (tmp_path / "a/.link.k3.part").symlink_to(tmp_path / "a/b")
    (tmp_path / "a/b/x").write_text("whole")
    clear_unfinished_below(tmp_path)
    clear_unfinished_below(tmp_path / "nowhere")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["a", "a/b", "a/b/x"]


def killed_after(calls: int, write) -> bool:
    """Run ``write`` in a child that is killed before its ``calls``-th change of the disk's names; whether it was killed."""
    child = os.fork()
    if child == 0:
        replace, left = os.replace, [calls]

        def counted(*paths):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*paths)

        os.replace = counted
        write()
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.slow
def test_a_file_verifies_whenever_its_writer_was_killed(tmp_path):
    """Three renames: sidecar with both checksums, file, sidecar with the new one; also over what an earlier kill has left."""
    target, contents = tmp_path / "x", []

    def write(text):
        with atomic_path(target, checksum=True) as temporary:
            temporary.write_text(text)

    write("0")
    for number, calls in enumerate([0, 1, 1, 2, 2, 1, 0, 2, 3], start=1):
        assert killed_after(calls, lambda number=number: write(str(number))) == (calls < 3)
        assert damage_of(target) == ""
        contents.append(target.read_text())
    assert contents == ["0", "0", "0", "4", "5", "5", "5", "8", "9"]
    assert (tmp_path / ".x.sha256").read_text() == (
        "19581e27de7ced00ff1ce50b2047e7a567c76b1cbaebabe5ef03f7c3017bb5b7  x\n"  # printf 9 | sha256sum
    )
    write("10")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".x.sha256", "x"]
