import errno
import signal
import subprocess
import sys

import pytest

from deep_interest.errors import InputError
from deep_interest.files import atomic_path, clear_unfinished


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
    assert [file.name for file in target.iterdir()] == ["c"]


def test_what_killed_writers_have_left_is_removed_and_nothing_else(tmp_path):
    for name in (".fit.pt.k1.part", ".fit.pt.k2.part", ".other.pt.k3.part", "fit.pt"):
        (tmp_path / name).write_text("half")
    (tmp_path / ".fit.pt.k4.old.part").mkdir()
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
    """As torch does it, which tells of the file's wrong length when it ends it."""
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
        "import sys, time; from deep_interest.files import atomic_path\n"
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
        "import os, shutil, signal; from deep_interest.files import atomic_path\n"
        f"for names in (['a', 'b', 'c'], ['x', 'y', 'z']):\n"
        f"    with atomic_path({str(target)!r}, directory=True) as folder:\n"
        "        [(folder / name).write_text(name) for name in names]\n"
        "        shutil.rmtree = lambda path, **_: (os.remove(next(path.iterdir())), os.kill(os.getpid(), signal.SIGKILL))"
    )
    process = subprocess.run([sys.executable, "-c", script], check=False)
    assert process.returncode == -signal.SIGKILL
    found = sorted(file.name for file in target.iterdir())
    assert found in (["a", "b", "c"], ["x", "y", "z"])
