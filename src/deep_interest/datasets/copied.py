"""What the datasets have in common that read a local path: files in an object store are copied first."""

from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import fsspec
from kedro.io import AbstractDataset
from kedro.io.core import get_protocol_and_path

from deep_interest.datasets.checked import LOCAL, name_arguments
from deep_interest.errors import InputError

Loaded = TypeVar("Loaded")


class CopiedDataset(AbstractDataset[None, Loaded]):
    """Files that are read from a local path, or, if they are in an object store, from a copy in the folder ``cache``.

    They are not versioned by Kedro.

    Args:
        filepath: local path, or a URL such as ``s3://bucket/days``.
        cache: ``path`` of the local folder for copies of files in an object store; without it a URL is refused.
        credentials: credentials of the file system.
        fs_args: arguments of the file system.
        metadata: metadata for Kedro-Viz.

    Raises:
        InputError: the path is a URL, but there is no ``cache``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        name_arguments(cls)
        super().__init_subclass__(**options)

    def __init__(
        self, *, filepath: str, cache: dict[str, str] | None = None, credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._protocol, path = get_protocol_and_path(filepath)
        self._filepath = PurePosixPath(path)
        self._is_remote = self._protocol != LOCAL
        if self._is_remote and cache is None:
            raise InputError(
                f"{filepath}: these files are read from a local folder; to read them from an object store, give the entry a URL "
                "of its own and `cache: {path: FOLDER}` (docs/catalog.md, Object storage)"
            )
        self._cache = Path(cache["path"]) if cache and self._is_remote else None
        self._fs = fsspec.filesystem(self._protocol, **(credentials or {}), **(fs_args or {}))
        self.metadata = metadata

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "protocol": self._protocol}
