"""Dataset of a model registry."""

from pathlib import Path

from kedro.io import DatasetError

from deep_interest.datasets.copied import CopiedDataset
from deep_interest.io.mirror import Mirror
from deep_interest.serving.registry import Registry
from deep_interest.serving.remote_registry import RemoteRegistry


class RegistryFolder(CopiedDataset[Registry]):
    """Model registry; loading opens it, whether or not it has versions, and the registry writes its own changes.

    A registry in an object store is read and written through its local copy. The arguments are those of `CopiedDataset`.
    """

    def load(self) -> Registry:
        """Open the registry."""
        path = str(self._filepath)
        if self._cache is None:
            return Registry(Path(path))
        return RemoteRegistry(Mirror(self._fs, path, self._cache / path.lstrip("/")))

    def save(self, data: None) -> None:
        raise DatasetError(f"{self._filepath}: the registry writes its own changes")

    def _exists(self) -> bool:
        return self._fs.exists(str(self._filepath))
