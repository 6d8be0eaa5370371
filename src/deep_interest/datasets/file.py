"""Base class of the project's own datasets that are one file, in any file system of fsspec."""

from copy import deepcopy
from pathlib import PurePosixPath
from typing import Any

import fsspec
from kedro.io import AbstractVersionedDataset, Version
from kedro.io.core import get_protocol_and_path

from deep_interest.datasets.checked import LOCAL, name_arguments


class FileDataset(AbstractVersionedDataset[Any, Any]):
    """One file; the arguments are those of kedro-datasets. Subclasses implement ``load`` and ``save``.

    Args:
        filepath: path, or URL such as ``s3://bucket/file``.
        version: version to load and to save; Kedro fills it in where an entry has ``versioned: true``.
        credentials: credentials of the file system.
        fs_args: arguments of the file system.
        metadata: metadata for `Checked`, Kedro-Viz and other plugins.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        name_arguments(cls)
        super().__init_subclass__(**options)

    def __init__(
        self,
        *,
        filepath: str,
        version: Version | None = None,
        credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._protocol, path = get_protocol_and_path(filepath, version)
        options = deepcopy(fs_args or {})
        if self._protocol == LOCAL:
            options.setdefault("auto_mkdir", True)
        self._fs = fsspec.filesystem(self._protocol, **deepcopy(credentials or {}), **options)
        self.metadata = metadata
        super().__init__(
            PurePosixPath(path), version, exists_function=self._fs.exists, glob_function=self._fs.glob
        )

    def _describe(self) -> dict[str, Any]:
        return {"filepath": self._filepath, "protocol": self._protocol, "version": self._version}

    def _exists(self) -> bool:
        return self._fs.exists(str(self._get_load_path()))

    def _release(self) -> None:
        super()._release()
        self._fs.invalidate_cache(str(self._filepath))
