"""A dataset that is one local file or folder, with checksums."""

from pathlib import Path
from typing import Any, Generic, TypeVar

from kedro.io import AbstractDataset, DatasetError

from deep_interest.experiments import pipeline_name
from deep_interest.io.checksums import damage_of

T = TypeVar("T")


class LocalDataset(AbstractDataset[T, T], Generic[T]):
    """Base of the project's datasets; a subclass says how to read and write the path.

    Loading first compares the file or folder with the checksums that were recorded when it was written.

    Args:
        filepath: the file or folder, relative to the project.
        pipeline: the pipeline that writes it, for messages; ``<dataset>.<row>`` may name a tuned model or another table.
        metadata: for Kedro-Viz and other plugins.
    """

    def __init__(
        self, *, filepath: str, pipeline: str | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        self._filepath = Path(filepath)
        self._pipeline = pipeline
        self.metadata = metadata

    def load(self) -> T:
        if not self._filepath.exists():
            raise DatasetError(
                f"{self._filepath} is not there; run {_command(self._pipeline)} first (see 'kedro registry list')"
            )
        check_file(self._filepath, self._pipeline)
        return self.read(self._filepath)

    def save(self, data: T) -> None:
        self.write(data, self._filepath)

    def read(self, path: Path) -> T:
        """Read what :meth:`write` wrote."""
        raise DatasetError(f"{type(self).__name__} is written, never read")

    def write(self, data: T, path: Path) -> None:
        """Write in one atomic step, with checksums."""
        raise DatasetError(f"{type(self).__name__} is read, never written")

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath)}

    def _exists(self) -> bool:
        return self._filepath.exists()


def check_file(path: Path, pipeline: str | None) -> None:
    """Compare a file or folder with its checksums.

    Args:
        path: the file or folder.
        pipeline: the pipeline that writes it.

    Raises:
        DatasetError: it is damaged, was changed by hand, or its checksums are missing.
    """
    if damage := damage_of(path):
        raise DatasetError(f"{path}: {damage}; run {_command(pipeline)} to write it again")


def _command(pipeline: str | None) -> str:
    if pipeline is None:
        return "the pipeline that writes it"
    dataset, _, row = pipeline.partition(".")
    return f"`kedro run --pipelines={pipeline_name(dataset, row) if row else pipeline}`"
