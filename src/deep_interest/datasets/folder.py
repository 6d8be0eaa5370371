"""Base class of the project's own datasets that are one local folder or file."""

from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar

from kedro.io import AbstractVersionedDataset, DatasetError, Version
from kedro.io.core import get_protocol_and_path

from deep_interest.datasets.checked import LOCAL, check_file, missing_message, name_arguments
from deep_interest.errors import InputError

Saved = TypeVar("Saved")
Loaded = TypeVar("Loaded")


class LocalDataset(AbstractVersionedDataset[Saved, Loaded], Generic[Saved, Loaded]):
    """A folder of arrays or tables that nodes map into memory or that DuckDB reads, so it is on a local disk.

    The type parameters are the types of saved and of loaded data. Loading first compares the folder with the checksums recorded
    when it was written. Subclasses implement `read` and `write`.

    Args:
        filepath: path, relative to the project.
        version: version to load and to save; Kedro fills it in where an entry has ``versioned: true``.
        metadata: metadata for Kedro-Viz and other plugins; ``pipeline`` is the pipeline that writes the folder, for messages.

    Raises:
        InputError: the path is a URL.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        name_arguments(cls)
        super().__init_subclass__(**options)

    def __init__(
        self, *, filepath: str, version: Version | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        protocol, path = get_protocol_and_path(filepath, version)
        if protocol != LOCAL:
            raise InputError(
                f"{filepath}: {type(self).__name__} reads and writes local folders only; give it a path without ://"
            )
        self.metadata = metadata
        super().__init__(PurePosixPath(path), version)

    @property
    def pipeline(self) -> str | None:
        """Pipeline that writes the folder, for messages."""
        return (self.metadata or {}).get("pipeline")

    def load(self) -> Loaded:
        """Verify the checksums and read the folder.

        Raises:
            DatasetError: the folder is missing, damaged or was edited.
        """
        if not self.exists():
            raise DatasetError(missing_message(str(self._filepath), self.pipeline))
        path = Path(self._get_load_path())
        check_file(path, self.pipeline)
        return self.read(path)

    def save(self, data: Saved) -> None:
        """Write the folder."""
        self.write(data, Path(self._get_save_path()))

    def read(self, path: Path) -> Loaded:
        """Read the folder that `write` has written."""
        raise DatasetError(f"{type(self).__name__} can only be saved, not loaded")

    def write(self, data: Saved, path: Path) -> None:
        """Write the folder atomically, with checksums."""
        raise DatasetError(f"{type(self).__name__} can only be loaded, not saved")

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "version": self._version}

    def _exists(self) -> bool:
        return Path(self._get_load_path()).exists()
