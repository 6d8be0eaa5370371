"""Dataset of a process that takes part in a run but writes nothing."""

from typing import Any

from kedro.io import AbstractDataset


class Unwritten(AbstractDataset[Any, Any]):
    """Loads what another process saves, and saves nothing.

    Args:
        dataset: dataset that the other process saves.
    """

    def __init__(self, dataset: AbstractDataset[Any, Any]) -> None:
        self._dataset = dataset

    def load(self) -> Any:
        return self._dataset.load()

    def save(self, data: Any) -> None:
        """Ignore the data."""

    def _describe(self) -> dict[str, Any]:
        return {"dataset": str(self._dataset)}

    def _exists(self) -> bool:
        return self._dataset.exists()

    def _release(self) -> None:
        self._dataset.release()
