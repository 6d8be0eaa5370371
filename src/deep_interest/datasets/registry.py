"""The model registry of a row."""

from pathlib import Path

from deep_interest.datasets.local import LocalDataset
from deep_interest.serving.registry import Registry


class RegistryFolder(LocalDataset[Registry]):
    """A registry; loading opens it, be there versions or not, and every change is a step of its own."""

    def load(self) -> Registry:
        return self.read(self._filepath)

    def read(self, path: Path) -> Registry:
        return Registry(path)
