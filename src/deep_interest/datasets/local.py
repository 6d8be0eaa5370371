"""Base class of datasets that are one local file or folder with checksums."""

from pathlib import Path
from typing import Any, Generic, TypeVar

from kedro.io import AbstractDataset, DatasetError

from deep_interest.experiments import pipeline_name
from deep_interest.io.checksums import damage_of

Saved = TypeVar("Saved")
Loaded = TypeVar("Loaded")


class LocalDataset(AbstractDataset[Saved, Loaded], Generic[Saved, Loaded]):
    """Base class of the project's datasets; subclasses implement `read` and `write`.

    The type parameters are the types of saved and of loaded data. Loading first compares the file or folder with the checksums
    recorded when it was written.

    Args:
        filepath: file or folder, relative to the project.
        pipeline: pipeline that writes it, for messages; in ``<dataset>.<model>`` the model may be a tuned model or an
            ablation table.
        metadata: metadata for Kedro-Viz and other plugins.
    """

    def __init__(
        self, *, filepath: str, pipeline: str | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        self._filepath = Path(filepath)
        self._pipeline = pipeline
        self.metadata = metadata

    def load(self) -> Loaded:
        """Verify the checksums and read the file or folder.

        Raises:
            DatasetError: the file is missing, damaged or was edited.
        """
        if not self._filepath.exists():
            raise DatasetError(
                f"{self._filepath} does not exist; run {_command(self._pipeline)} first (see 'kedro registry list')"
            )
        check_file(self._filepath, self._pipeline)
        return self.read(self._filepath)

    def save(self, data: Saved) -> None:
        """Write the file or folder."""
        self.write(data, self._filepath)

    def read(self, path: Path) -> Loaded:
        """Read the file or folder that `write` has written."""
        raise DatasetError(f"{type(self).__name__} can only be saved, not loaded")

    def write(self, data: Saved, path: Path) -> None:
        """Write the file or folder atomically, with checksums."""
        raise DatasetError(f"{type(self).__name__} can only be loaded, not saved")

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath)}

    def _exists(self) -> bool:
        return self._filepath.exists()


def check_file(path: Path, pipeline: str | None) -> None:
    """Compare a file or folder with its checksums.

    Args:
        path: file or folder to check.
        pipeline: pipeline that writes it, for the message.

    Raises:
        DatasetError: the file is damaged, was edited, or has no checksums.
    """
    if damage := damage_of(path):
        raise DatasetError(f"{path}: {damage}; run {_command(pipeline)} to write it again")


def _command(pipeline: str | None) -> str:
    if pipeline is None:
        return "the pipeline that writes it"
    dataset, _, model = pipeline.partition(".")
    return f"`kedro run --pipelines={pipeline_name(dataset, model) if model else pipeline}`"
