"""Writing files so that a half-written one is never taken for a whole one."""

import contextlib
import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deep_interest.errors import InputError

_FULL = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the system allows no file so large; raise the limit (ulimit -f)",
}


@contextmanager
def atomic_path(path: str | Path, *, directory: bool = False) -> Iterator[Path]:
    """Yield a temporary neighbour of ``path`` that takes its place only when the block ends without an error.

    A kill or a full disk leaves the old ``path`` as it was; the unfinished neighbour (``.<name>.*.part``) is
    removed on an error and ignored by every reader after a kill.

    Args:
        path: the file or folder to write.
        directory: the block fills a folder instead of a file.

    Raises:
        InputError: the disk is full, or the system allows no more for another reason.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    if directory:
        temporary.unlink()
        temporary.mkdir()
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o755 if directory else 0o644)
        _replace_folder(temporary, path) if directory else os.replace(temporary, path)
        _flush_names(path.parent)
    except BaseException as error:
        shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink(missing_ok=True)
        if number := _refused(error):
            raise InputError(
                f"{path}: {_FULL[number]} and run the same command again, finished work is kept"
            ) from error
        raise


def clear_unfinished(path: Path) -> None:
    """Remove what killed writers of ``path`` have left beside it; for its only writer."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def _refused(error: BaseException | None) -> int | None:
    """Why the system took no more, if that is behind an error: torch reports that its file has the wrong length by then."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return error.errno
        error = error.__context__
    return None


def _replace_folder(temporary: Path, path: Path) -> None:
    """Move the old folder aside whole, so that a kill leaves the old one, the new one or none, never a half."""
    if not path.exists():
        os.replace(temporary, path)
        return
    old = temporary.with_suffix(".old.part")
    os.replace(path, old)
    os.replace(temporary, path)
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    for file in path.iterdir() if path.is_dir() else [path]:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    if path.is_dir():
        _flush_names(path)


def _flush_names(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
