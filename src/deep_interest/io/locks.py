"""Locks between processes: a file per resource that records who holds it; the system unlocks it when its holder ends, however it ends."""

import contextlib
import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from deep_interest.errors import InputError

_ATTEMPTS, _PAUSE_SECONDS = (
    10,
    0.05,
)  # others hold a lock for a moment too long while they record or remove themselves


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        pid: process id.
        host: name of its machine.
        command: what it runs.
        since: local time at which it took the lock, in ISO format.
    """

    pid: int
    host: str
    command: str
    since: str

    @classmethod
    def current(cls, command: str) -> "Holder":
        """This process."""
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        return cls(os.getpid(), socket.gethostname(), command, now)

    @property
    def may_run(self) -> bool:
        """Whether the process exists; one on another machine may."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's process
            return True
        return True

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.pid} on {self.host}, since {self.since})"


class LockedError(InputError):
    """Another process holds a resource.

    Args:
        resource: name of the resource.
        holders: known processes that hold it.
        advice: how to go on.
    """

    def __init__(self, resource: str, holders: list[Holder], advice: str) -> None:
        names = ", ".join(map(str, holders)) or "another process"
        super().__init__(f"{resource} is in use by {names}; this run has written nothing. {advice}")


class ResourceLock:
    """The lock of one resource: several processes may share it, or one may hold it exclusively.

    Args:
        path: the lock file; its folder is created where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self, command: str, *, shared: bool = False, advice: str = "Wait until it ends.") -> None:
        """Take the lock within half a second or not at all.

        Args:
            command: what this process runs, for others that want the lock.
            shared: other processes may share it.
            advice: the error's last sentences.

        Raises:
            LockedError: another process holds it, or holds it exclusively if ``shared``.
            InputError: the file cannot be written or locked.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            locked = _locked(self._handle, shared=shared)
            if locked:
                _record(self._handle, command, alone=not shared)
        except OSError as error:
            self._close()
            raise InputError(
                f"{self.path}: the lock file cannot be written or locked ({error.strerror}); a run needs a data folder that it may "
                "write to, with free space, on a file system that supports locks"
            ) from error
        if not locked:
            self._close()
            holders = [holder for holder in _recorded(self.path) if holder.may_run]
            raise LockedError(self.path.stem, holders, advice)

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._handle is None:
            return
        with contextlib.suppress(BlockingIOError):  # others share it; the last one empties the file
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(self._handle, 0)
        self._close()

    def _close(self) -> None:
        """Close the file, which unlocks it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _record(handle: int, command: str, *, alone: bool) -> None:
    """Add this process to the holders of a lock file; any others recorded when this process is ``alone`` were killed."""
    if alone:
        os.truncate(handle, 0)
    os.write(handle, (json.dumps(asdict(Holder.current(command))) + "\n").encode())


def lock_path(data: Path, resource: str) -> Path:
    """The lock file of a resource.

    Args:
        data: root of an environment's data.
        resource: name of the resource, such as ``simulated`` or ``simulated.din.tuning``.
    """
    return data / ".locks" / f"{resource}.lock"


def _locked(handle: int, *, shared: bool) -> bool:
    """Whether the open file could be locked."""
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE_SECONDS if attempt else 0)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
    return False


def _recorded(path: Path) -> list[Holder]:
    """The holders that a lock file names, killed ones included; lines that are not whole are skipped."""
    holders = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            holders.append(Holder(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return holders
