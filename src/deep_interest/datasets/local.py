"""A dataset that is one local file or folder."""

from pathlib import Path
from typing import Any, Generic, TypeVar

from kedro.io import AbstractDataset, DatasetError

T = TypeVar("T")


class LocalDataset(AbstractDataset[T, T], Generic[T]):
    """Base of the project's datasets; a subclass says how to read and write the path.

    Args:
        filepath: the file or folder, relative to the project.
        metadata: for Kedro-Viz and other plugins.
    """

    maker = "the pipeline that makes it"

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        self._filepath = Path(filepath)
        self.metadata = metadata

    def load(self) -> T:
        if not self._filepath.exists():
            raise DatasetError(
                f"{self._filepath} is not there; run {self.maker} first (see 'kedro registry list')"
            )
        return self.read(self._filepath)

    def save(self, data: T) -> None:
        self.write(data, self._filepath)

    def read(self, path: Path) -> T:
        """Read what :meth:`write` wrote."""
        raise DatasetError(f"{type(self).__name__} is written, never read")

    def write(self, data: T, path: Path) -> None:
        """Write in one atomic step."""
        raise DatasetError(f"{type(self).__name__} is read, never written")

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath)}

    def _exists(self) -> bool:
        return self._filepath.exists()
