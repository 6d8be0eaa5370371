"""Dataset of JSON files in a folder each, all of which may be missing."""

from typing import Any

import fsspec
from kedro.io import AbstractDataset, DatasetError
from kedro.io.core import get_protocol_and_path
from kedro_datasets.json import JSONDataset

from deep_interest.datasets.checked import checked


class JSONFiles(AbstractDataset[None, dict[str, Any]]):
    """Values of the existing files ``<folder>/<name>.json`` below a parent; read-only.

    ``partitions.PartitionedDataset`` would raise an error if no file exists, and could not name the pipeline that writes each.

    Args:
        path: parent of the folders; a path or a URL.
        files: pipelines that write the files by their names, without the folder, for messages: ``<pipeline>.<folder>``.
        credentials: credentials of the file system.
        fs_args: arguments of the file system.
        metadata: metadata for Kedro-Viz and other plugins.
    """

    def __init__(
        self,
        *,
        path: str,
        files: dict[str, str],
        credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._files, self.metadata = files, metadata
        self._options = {"credentials": credentials, "fs_args": fs_args}
        self._protocol, self._path = get_protocol_and_path(path)
        self._fs = fsspec.filesystem(self._protocol, **(credentials or {}), **(fs_args or {}))

    def load(self) -> dict[str, Any]:
        """Load all existing files as ``{folder: values}``, or ``{<folder>_<name>: values}`` if there are several names.

        Raises:
            DatasetError: a file is damaged or was edited.
        """
        several = len(self._files) > 1
        return {
            f"{folder}_{name}" if several else folder: self._read(folder, name, pipeline)
            for name, pipeline in self._files.items()
            for folder in self._folders(f"{name}.json")
        }

    def save(self, data: None) -> None:
        raise DatasetError(f"{self._path}: these files can only be loaded here, not saved")

    def _folders(self, file: str) -> list[str]:
        self._fs.invalidate_cache(self._path)
        return sorted(path.split("/")[-2] for path in self._fs.glob(f"{self._path}/*/{file}"))

    def _read(self, folder: str, name: str, pipeline: str) -> Any:
        dataset = pipeline.rpartition(".")[2]
        of_dataset = folder in ("leaderboard", "worth")
        metadata = {"pipeline": f"{folder}.{dataset}" if of_dataset else f"{pipeline}.{folder}"}
        path = f"{self._protocol}://{self._path}/{folder}/{name}.json"
        return checked(JSONDataset)(filepath=path, metadata=metadata, **self._options).load()

    def _describe(self) -> dict[str, Any]:
        return {"path": self._path, "files": self._files}

    def _exists(self) -> bool:
        return bool(self.load())
