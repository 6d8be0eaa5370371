"""Raw files as the sources publish them; the reading is the node's."""

from pathlib import Path
from typing import Any

from kedro.io import DatasetError

from deep_interest.datasets.local import LocalDataset
from deep_interest.sources.downloads import missing_file_message


class RawFile(LocalDataset[Path | None]):
    """A file (or folder) of a source; loading gives its path, or one clear error when it is missing.

    Args:
        filepath: below ``data/01_raw`` or the folder that ``DEEP_INTEREST_RAW`` names.
        download: the name that ``deep-interest download`` knows it by.
        page: the official page, where it is not to be downloaded by a command.
        optional: loading gives None when it is missing.
        metadata: for Kedro-Viz.
    """

    def __init__(
        self, *, filepath: str, download: str | None = None, page: str | None = None, optional: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(filepath=filepath, metadata=metadata)
        self._download, self._page, self._optional = download, page, optional

    def load(self) -> Path | None:
        folder = self._filepath.with_suffix("")  # an archive may also lie there unpacked
        found = next((path for path in (self._filepath, folder) if path.exists()), None)
        if found is None and not self._optional:
            raise DatasetError(missing_file_message(self._filepath, download=self._download, page=self._page))
        return found
