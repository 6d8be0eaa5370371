"""Dataset of raw files, which the nodes read themselves."""

from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from kedro.io import AbstractDataset, DatasetError
from kedro.io.core import get_protocol_and_path

from deep_interest.datasets.checked import LOCAL
from deep_interest.errors import InputError
from deep_interest.io.mirror import mirror
from deep_interest.sources.downloads import missing_file_message


class RawFile(AbstractDataset[None, Path | None]):
    """Raw file or folder; loading returns its local path.

    A file or folder in an object store is copied to the folder ``cache`` first; unchanged files are not copied again. Raw files
    are not versioned: their owner names them.

    Args:
        filepath: path below ``data/01_raw`` or the folder in the environment variable ``DEEP_INTEREST_RAW``, or a URL such as
            ``s3://bucket/days``.
        download: dataset name for ``deep-interest download``.
        page: official page of the dataset, for files that cannot be downloaded by command.
        optional: whether loading a missing file returns None instead of raising an error.
        cache: ``path`` of the local folder for copies of files in an object store; without it a URL is refused.
        credentials: credentials of the file system.
        fs_args: arguments of the file system.
        metadata: metadata for Kedro-Viz.

    Raises:
        InputError: the path is a URL, but there is no ``cache``.
    """

    def __init__(
        self, *, filepath: str, download: str | None = None, page: str | None = None, optional: bool = False,
        cache: dict[str, str] | None = None, credentials: dict[str, Any] | None = None, fs_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._protocol, path = get_protocol_and_path(filepath)
        self._filepath = PurePosixPath(path)
        self._is_remote = self._protocol != LOCAL
        self._cache = Path(cache["path"]) if cache else None
        if self._is_remote and self._cache is None:
            raise InputError(
                f"{filepath}: the raw files of this entry are read from a local folder; to read them from an object store, give "
                "the entry the URL of the dataset's own folder and a cache (docs/catalog.md, Raw files)"
            )
        self._fs = fsspec.filesystem(self._protocol, **(credentials or {}), **(fs_args or {}))
        self._download, self._page, self._optional = download, page, optional
        self.metadata = metadata

    def load(self) -> Path | None:
        """Return the local path of the file, or of the folder that an archive was unpacked to.

        Raises:
            DatasetError: the file is missing and not optional.
        """
        existing = self._existing_path()
        if existing is not None:
            return self._local_path(existing)
        if self._optional:
            return None
        if self._is_remote:
            raise DatasetError(f"{self._protocol}://{self._filepath}: no such file or folder")
        raise DatasetError(
            missing_file_message(Path(self._filepath), download=self._download, page=self._page)
        )

    def save(self, data: None) -> None:
        raise DatasetError(f"{self._filepath}: raw files can only be loaded, not saved")

    def _existing_path(self) -> PurePosixPath | None:
        self._fs.invalidate_cache()
        paths = (self._filepath, self._filepath.with_suffix(""))
        return next((path for path in paths if self._fs.exists(str(path))), None)

    def _local_path(self, path: PurePosixPath) -> Path:
        if self._cache is None or not self._is_remote:
            return Path(path)
        return mirror(self._fs, str(path), self._cache / str(path).lstrip("/"))

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "protocol": self._protocol}

    def _exists(self) -> bool:
        return self._existing_path() is not None
