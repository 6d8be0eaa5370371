"""Dataset of raw files, which the nodes read themselves."""

from pathlib import Path
from typing import Any

from kedro.io import DatasetError

from deep_interest.datasets.local import LocalDataset
from deep_interest.sources.downloads import missing_file_message


class RawFile(LocalDataset[Path | None, Path | None]):
    """Raw file or folder; loading returns its path.

    Args:
        filepath: path below ``data/01_raw`` or the folder in the environment variable ``DEEP_INTEREST_RAW``.
        download: dataset name for ``deep-interest download``.
        page: official page of the dataset, for files that cannot be downloaded by command.
        optional: whether loading a missing file returns None instead of raising an error.
        metadata: metadata for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, download: str | None = None, page: str | None = None, optional: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(filepath=filepath, metadata=metadata)
        self._download, self._page, self._optional = download, page, optional

    def load(self) -> Path | None:
        """Return the path of the file, or of the folder that an archive was unpacked to.

        Raises:
            DatasetError: the file is missing and not optional.
        """
        folder = self._filepath.with_suffix("")
        existing_path = next((path for path in (self._filepath, folder) if path.exists()), None)
        if existing_path is None and not self._optional:
            raise DatasetError(missing_file_message(self._filepath, download=self._download, page=self._page))
        return existing_path
