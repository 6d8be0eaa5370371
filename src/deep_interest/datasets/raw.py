"""Dataset of raw files, which the nodes read themselves."""

from pathlib import Path, PurePosixPath
from typing import Any

from kedro.io import DatasetError

from deep_interest.datasets.copied import CopiedDataset
from deep_interest.io.mirror import Mirror
from deep_interest.sources.downloads import missing_file_message


class RawFile(CopiedDataset[Path | None]):
    """Raw file or folder; loading returns its local path. Unchanged files of an object store are not copied again.

    Args:
        filepath: path below ``data/01_raw`` or the folder in the environment variable ``DEEP_INTEREST_RAW``.
        download: dataset name for ``deep-interest download``.
        page: official page of the dataset, for files that cannot be downloaded by command.
        optional: whether loading a missing file returns None instead of raising an error.
        cache, credentials, fs_args, metadata: as in `CopiedDataset`.
    """

    def __init__(
        self, *, filepath: str, download: str | None = None, page: str | None = None, optional: bool = False,
        cache: dict[str, str] | None = None, credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            filepath=filepath, cache=cache, credentials=credentials, fs_args=fs_args, metadata=metadata
        )
        self._download, self._page, self._optional = download, page, optional

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
        if self._cache is None:
            return Path(path)
        copy = self._cache / str(path).lstrip("/")
        if self._fs.isdir(str(path)):
            return Mirror(self._fs, str(path), copy).pull()
        return Mirror(self._fs, str(path.parent), copy.parent).pull_file(path.name)

    def _exists(self) -> bool:
        return self._existing_path() is not None
