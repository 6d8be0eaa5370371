"""Dataset of a model registry."""

from pathlib import Path
from typing import Any

import fsspec
from kedro.io import AbstractDataset, DatasetError
from kedro.io.core import get_protocol_and_path

from deep_interest.datasets.checked import LOCAL
from deep_interest.errors import InputError
from deep_interest.io.mirror import Mirror
from deep_interest.serving.registry import Registry
from deep_interest.serving.remote_registry import RemoteRegistry


class RegistryFolder(AbstractDataset[None, Registry]):
    """Model registry; loading opens it, whether or not it has versions, and the registry writes its own changes.

    A registry in an object store is read and written through a copy in the folder ``cache``. Registries are not versioned by
    Kedro: they have versions of their own.

    Args:
        filepath: folder of the registry, or a URL such as ``s3://bucket/registry``.
        cache: ``path`` of the local folder for copies of registries in an object store; without it a URL is refused.
        credentials: credentials of the file system.
        fs_args: arguments of the file system.
        metadata: metadata for Kedro-Viz.

    Raises:
        InputError: the path is a URL, but there is no ``cache``.
    """

    def __init__(
        self,
        *,
        filepath: str,
        cache: dict[str, str] | None = None,
        credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._protocol, self._path = get_protocol_and_path(filepath)
        self._cache = Path(cache["path"]) if cache else None
        if self._protocol != LOCAL and self._cache is None:
            raise InputError(
                f"{filepath}: a registry in an object store needs a local folder for its copy; give the entry "
                "`cache: {path: FOLDER}`"
            )
        self._fs = fsspec.filesystem(self._protocol, **(credentials or {}), **(fs_args or {}))
        self.metadata = metadata

    def load(self) -> Registry:
        """Open the registry."""
        if self._protocol == LOCAL or self._cache is None:
            return Registry(Path(self._path))
        return RemoteRegistry(Mirror(self._fs, self._path, self._cache / self._path.lstrip("/")))

    def save(self, data: None) -> None:
        raise DatasetError(f"{self._path}: the registry writes its own changes")

    def _describe(self) -> dict[str, Any]:
        return {"filepath": self._path, "protocol": self._protocol}

    def _exists(self) -> bool:
        return self._fs.exists(self._path)
