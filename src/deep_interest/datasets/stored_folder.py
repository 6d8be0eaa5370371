"""Folders with checksums that are on a local disk, or in an object store with a local copy."""

from pathlib import Path
from typing import Any, Generic, TypeVar

import fsspec
from kedro.io import DatasetError, Version
from kedro.io.core import get_protocol_and_path

from deep_interest.datasets.checked import LOCAL, missing_message
from deep_interest.datasets.folder import LocalDataset
from deep_interest.errors import InputError
from deep_interest.io.remote_folder import RemoteFolder

Saved = TypeVar("Saved")
Loaded = TypeVar("Loaded")


class StoredFolder(LocalDataset[Saved, Loaded], Generic[Saved, Loaded]):
    """A `LocalDataset` that may be in an object store: it is written to the local copy, then uploaded; loading copies what is new.

    Args:
        filepath: path, relative to the project, or a URL such as ``s3://bucket/folder``.
        cache: ``path`` of the local folder for copies of folders in an object store; without it a URL is refused.
        credentials, fs_args: credentials and arguments of the file system of a URL.
        version: version to load and to save, for local folders; Kedro fills it in where an entry has ``versioned: true``.
        metadata: as in `LocalDataset`.

    Raises:
        InputError: the path is a URL, but there is no ``cache``, or it is versioned.
    """

    def __init__(
        self, *, filepath: str, cache: dict[str, str] | None = None, credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None, version: Version | None = None, metadata: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        protocol, path = get_protocol_and_path(filepath, version)
        self._remote: RemoteFolder | None = None
        if protocol != LOCAL and cache is not None:
            if version is not None:
                raise InputError(f"{filepath}: versioned folders are local; remove versioned, or the URL")
            file_system = fsspec.filesystem(protocol, **(credentials or {}), **(fs_args or {}))
            self._remote = RemoteFolder(file_system, path, filepath)
            self._address = filepath
            filepath = str(Path(cache["path"]) / path.lstrip("/"))
        super().__init__(filepath=filepath, version=version, metadata=metadata)

    def load(self) -> Loaded:
        """Copy the folder from the object store if it is there, verify the checksums and read it.

        Raises:
            DatasetError: the folder is missing, damaged or was edited.
        """
        if self._remote is not None:
            if not self._remote.exists():
                raise DatasetError(missing_message(self._address, self.pipeline))
            self._remote.pull(Path(self._filepath))
        return super().load()

    def save(self, data: Saved) -> None:
        """Write the folder, and upload it if it is in an object store."""
        super().save(data)
        if self._remote is not None:
            self._remote.push(Path(self._filepath))

    def _exists(self) -> bool:
        return super()._exists() if self._remote is None else self._remote.exists()
