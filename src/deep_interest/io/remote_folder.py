"""Folders with checksums in an object store, which readers see whole or not at all."""

from pathlib import Path
from typing import Any

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import SUMS, damage_of


class RemoteFolder:
    """A folder of an object store that was written by `atomic_path`, so that it has the checksums of its files.

    The checksums are removed before the files are replaced and uploaded after them: a folder without them, or with files of another
    upload, is not read.

    Args:
        file_system: file system of fsspec.
        path: path of the folder in it.
        address: URL of the folder, for messages.
    """

    def __init__(self, file_system: Any, path: str, address: str) -> None:
        self._fs, self._path, self._address = file_system, path.rstrip("/"), address

    def exists(self) -> bool:
        """Return whether the folder was uploaded completely."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(f"{self._path}/{SUMS}"))

    def push(self, folder: Path) -> None:
        """Upload a local folder and delete files that it does not have."""
        names = sorted(file.name for file in folder.iterdir() if file.name != SUMS)
        old = self._names()
        if SUMS in old:
            self._fs.rm_file(f"{self._path}/{SUMS}")
        for name in (*names, SUMS):
            self._fs.put_file(str(folder / name), f"{self._path}/{name}")
        for name in old - {*names, SUMS}:
            self._fs.rm_file(f"{self._path}/{name}")
        self._fs.invalidate_cache()

    def pull(self, folder: Path) -> None:
        """Copy the folder unless the local copy has the same checksums.

        Raises:
            InputError: the folder was changed while it was copied, or is damaged.
        """
        sums = self._fs.cat_file(f"{self._path}/{SUMS}")
        local = folder / SUMS
        if local.exists() and local.read_bytes() == sums and not damage_of(folder):
            return
        with atomic_path(folder, directory=True) as target:
            for name in self._names() - {SUMS}:
                self._fs.get_file(f"{self._path}/{name}", str(target / name))
            (target / SUMS).write_bytes(sums)
            if damage := damage_of(target):
                raise InputError(
                    f"{self._address}: {damage}; if another run is writing the folder, wait until it ends, otherwise make it again"
                )
            (target / SUMS).unlink()

    def _names(self) -> set[str]:
        self._fs.invalidate_cache()
        found = self._fs.find(self._path)
        return {path.removeprefix(self._path).lstrip("/") for path in found}
