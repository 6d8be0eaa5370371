"""Local copies of files in an object store."""

import json
import logging
import os
import shutil
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path

logger = logging.getLogger(__name__)

_INDEX = ".mirror.json"


class Mirror:
    """A folder of an object store and its local copy.

    Each file appears whole or not at all. An index in the local folder records size and ETag, or time, of the copied files, so that
    files are copied again only when they have changed.

    Args:
        file_system: file system of fsspec.
        source: path of the folder in it.
        folder: local folder of the copies.
    """

    def __init__(self, file_system: Any, source: str, folder: Path) -> None:
        self._fs, self._source, self.folder = file_system, source.rstrip("/"), folder

    def pull(self) -> Path:
        """Copy all files of the store, remove copies of files that the store does not have any more, and return the folder.

        Raises:
            InputError: the name of a file would lead out of the folder.
        """
        self._fs.invalidate_cache()
        found = self._fs.find(self._source, detail=True)
        states = {path.removeprefix(self._source).lstrip("/"): _state(info) for path, info in found.items()}
        for name in states:
            if ".." in PurePosixPath(name).parts or not name:
                raise InputError(
                    f"{self._source}/{name}: names with `..` are not read; rename or delete this file"
                )
        index = self._index()
        self._copy(states, index)
        self._forget([name for name in index if name not in states])
        return self.folder

    def pull_file(self, name: str) -> Path:
        """Copy one file of the store and return the path of its copy."""
        self._fs.invalidate_cache()
        self._copy({name: _state(self._fs.info(f"{self._source}/{name}"))}, self._index())
        return self.folder / name

    def expect_change(self, *names: str) -> None:
        """Record that local files are about to change: unless `push` succeeds, `pull` restores the store's files."""
        self._record({name: [] for name in names})

    def push(self, *names: str) -> None:
        """Upload files of the local folder, in this order."""
        self.expect_change(*names)
        for name in names:
            self._fs.put_file(str(self.folder / name), f"{self._source}/{name}")
        self._fs.invalidate_cache()
        self._record({name: _state(self._fs.info(f"{self._source}/{name}")) for name in names})

    def remove(self, name: str) -> None:
        """Delete a folder of the store; its local copy has been deleted."""
        if self._fs.exists(f"{self._source}/{name}"):
            self._fs.rm(f"{self._source}/{name}", recursive=True)
        self._fs.invalidate_cache()
        self._forget([path for path in self._index() if path.startswith(f"{name}/")])

    def _copy(self, states: dict[str, list[str]], index: dict[str, list[str]]) -> None:
        changed = [
            name for name in states if index.get(name) != states[name] or not (self.folder / name).exists()
        ]
        if changed:
            logger.info(
                "copying %d of %d files from %s to %s", len(changed), len(states), self._source, self.folder
            )
        for name in changed:
            with atomic_path(self.folder / name) as temporary:
                self._fs.get_file(f"{self._source}/{name}", str(temporary))
                modified = self._fs.modified(f"{self._source}/{name}").timestamp()
                os.utime(temporary, (modified, modified))
        self._record({name: states[name] for name in changed})

    def _forget(self, names: Iterable[str]) -> None:
        names = list(names)
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        for parent in {(self.folder / name).parent for name in names} - {self.folder}:
            if parent.is_dir() and not any(parent.iterdir()):
                shutil.rmtree(parent)
        if names:
            self._write({name: state for name, state in self._index().items() if name not in names})

    def _record(self, states: dict[str, list[str]]) -> None:
        if states:
            self._write(self._index() | states)

    def _index(self) -> dict[str, list[str]]:
        file = self.folder / _INDEX
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def _write(self, index: dict[str, list[str]]) -> None:
        with atomic_path(self.folder / _INDEX) as temporary:
            temporary.write_text(json.dumps(index, indent=1), encoding="utf-8")


def _state(info: dict[str, Any]) -> list[str]:
    """Return what changes with a file: its size and ETag, or its time in file systems without ETags."""
    tag = info.get("ETag") or info.get("mtime") or info.get("created") or info.get("LastModified")
    return [str(info["size"]), str(tag.timestamp() if isinstance(tag, datetime) else tag)]
