"""Writing files so that a half-written one is never taken for a whole one, and a damaged one is noticed."""

import contextlib
import errno
import fnmatch
import glob
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.io.checksums import SUMS, listed, recorded, sha256, sidecar, sums

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FULL = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the system allows no file so large; raise the limit (ulimit -f)",
}
_workspaces: dict[Path, int] = {}
"""Handles that hold the locks of this process's workspaces."""


@contextmanager
def atomic_path(path: str | Path, *, directory: bool = False, checksum: bool = False) -> Iterator[Path]:
    """Yield a temporary neighbour of ``path`` that takes its place only when the block ends without an error.

    A kill or a full disk leaves the old ``path`` as it was; the unfinished neighbour (``.<name>.*.part``) is
    removed on an error, ignored by every reader after a kill, and removed by the next writer of ``path``.

    Args:
        path: the file or folder to write.
        directory: the block fills a folder instead of a file. The folder gets the checksums of its files (``SHA256SUMS``); folders
            in it have their own.
        checksum: record the checksum of the file next to it; see `deep_interest.io.checksums`.

    Raises:
        InputError: the disk is full, the system allows no more for another reason, or the old folder holds files that
            were not written here.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_unfinished(path)
    with _temporary(path, directory=directory) as temporary:
        try:
            yield temporary
            if directory:
                _replace_folder(temporary, path)
            else:
                _replace_file(temporary, path, checksum=checksum)
        except BaseException as error:
            _remove(temporary)
            if number := _refused(error):
                raise InputError(
                    f"{path}: {_FULL[number]} and run the same command again, finished work is kept"
                ) from error
            raise


def new_workspace(parent: Path, name: str) -> Path:
    """Return a new folder ``.<name>.*.part`` in an existing one. The steps of a run write to it, move the results elsewhere and remove it.

    Other runs leave it alone while this process lives, and the next one removes it if this process was killed.
    """
    for path in [path for path in _workspaces if not path.exists()]:
        if (unused := _workspaces.pop(path, None)) is not None:  # another thread may have closed it
            os.close(unused)
    folder, handle = _locked_temporary(parent / name, directory=True)
    if handle is not None:
        _workspaces[folder] = handle
    return folder


def clear_unfinished(path: Path) -> None:
    """Remove what killed writers of ``path`` have left next to it; what a live process is writing stays."""
    for name in (path.name, sidecar(path).name):
        _clear(path.parent.glob(f".{glob.escape(name)}.*.part"))


def clear_unfinished_below(folder: Path) -> None:
    """Remove what killed writers have left anywhere below a folder; what a live process is writing stays.

    For folders that hold nothing but what runs write: a ``.*.part`` of the user's own would go as well. Other processes may rename
    and remove folders at the same time.
    """
    # `Path.rglob` would raise an error for a folder that has just been removed
    for parent, folders, files in os.walk(folder):
        unfinished = sorted(fnmatch.filter([*folders, *files], ".*.part"))
        folders[:] = set(folders).difference(unfinished)
        _clear(Path(parent, name) for name in unfinished)


def _clear(candidates: Iterable[Path]) -> None:
    for path in candidates:
        with _lock_of_dead(path) as is_dead:
            if is_dead:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _temporary(path: Path, *, directory: bool) -> Iterator[Path]:
    """A temporary file or folder next to ``path``, locked until the block or this process ends."""
    temporary, handle = _locked_temporary(path, directory=directory)
    try:
        yield temporary
    finally:
        if handle is not None:
            os.close(handle)


def _locked_temporary(path: Path, *, directory: bool) -> tuple[Path, int | None]:
    """Create a temporary file or folder next to ``path``, and lock it until its handle is closed or this process ends."""
    while True:
        if directory:
            name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
            try:
                handle = os.open(name, os.O_RDONLY) if fcntl else None
            except FileNotFoundError:  # another process took it for that of a killed one
                continue
        else:
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        if handle is not None and fcntl:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):
            return Path(name), handle
        if handle is not None:  # removed after it was opened, but before it was locked
            os.close(handle)


@contextmanager
def _lock_of_dead(path: Path) -> Iterator[bool]:
    """Hold the lock of a temporary file or folder; False if a live process holds it."""
    if fcntl is None or path.is_symlink():
        yield True
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # removed in the meantime, or not ours to open
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_dead = True
    except OSError:
        is_dead = False
    try:
        yield is_dead
    finally:
        os.close(handle)


def _refused(error: BaseException | None) -> int | None:
    """Why the system took no more, if that is behind an error: torch reports that its file has the wrong length by then."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return error.errno
        error = error.__context__
    return None


def _replace_file(temporary: Path, path: Path, *, checksum: bool) -> None:
    """Rename the temporary file. The sidecar lists both checksums before and one after: a kill leaves a file that verifies."""
    _flush(temporary)
    temporary.chmod(0o644)
    if not checksum:
        os.replace(temporary, path)
        _flush_names(path.parent)
        return
    new = sha256(temporary)
    _record(path, [*_present_checksum(path), new])
    os.replace(temporary, path)
    _flush_names(path.parent)
    _record(path, [new])


def _record(path: Path, digests: list[str]) -> None:
    with atomic_path(sidecar(path)) as temporary:
        temporary.write_text(sums((digest, path.name) for digest in digests), encoding="utf-8")


def _present_checksum(path: Path) -> list[str]:
    """The recorded checksum of the present file; after a kill between two records, the one of two that it has."""
    digests = recorded(path) if path.exists() else []
    return digests if len(digests) < 2 else [digest for digest in digests[-2:] if digest == sha256(path)]


def _replace_folder(temporary: Path, path: Path) -> None:
    """Move the old folder aside whole, so that a kill leaves the old one, the new one or none, never a half."""
    written = sorted(file.name for file in temporary.iterdir() if file.is_file())
    if written or not any(temporary.iterdir()):
        lines = sums((sha256(temporary / name), name) for name in written)
        (temporary / SUMS).write_text(lines, encoding="utf-8")
    _flush(temporary)
    temporary.chmod(0o755)
    if not path.exists():
        os.replace(temporary, path)
    else:
        _check_owned(path, written)
        old = temporary.with_suffix(".old.part")
        os.replace(path, old)
        os.replace(temporary, path)
        shutil.rmtree(old, ignore_errors=True)
    _flush_names(path.parent)


def _check_owned(path: Path, written: list[str]) -> None:
    """Refuse to replace a folder with files that neither its ``SHA256SUMS`` lists nor the new folder has."""
    if not path.is_dir():
        raise InputError(f"{path}: found a file, expected a folder; move it elsewhere and run again")
    own = {SUMS, *written, *listed(path)}
    foreign = sorted(file.name for file in path.iterdir() if file.name not in own or file.is_dir())
    if foreign:
        raise InputError(
            f"{path}: the folder also holds {', '.join(foreign)}, which this project has not written, so the folder is not "
            "replaced; move these elsewhere and run again"
        )


def _flush(path: Path) -> None:
    if not path.is_dir():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        return
    for entry in path.iterdir():
        _flush(entry)
    _flush_names(path)


def _flush_names(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
