"""Dataset of a model registry."""

from pathlib import Path

from deep_interest.datasets.folder import LocalDataset
from deep_interest.serving.registry import Registry


class RegistryFolder(LocalDataset[Registry, Registry]):
    """Model registry; loading opens it, whether or not it has versions, and the registry writes its own changes."""

    def load(self) -> Registry:
        """Open the registry."""
        return Registry(Path(self._filepath))
