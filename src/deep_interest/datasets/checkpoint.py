"""Dataset of trained parameters."""

from pathlib import Path
from typing import Any

from kedro.io import DatasetError

from deep_interest.datasets.local import LocalDataset
from deep_interest.io.atomic import atomic_path


class CheckpointFile(LocalDataset[dict[str, Any], dict[str, Any]]):
    """Dictionary of tensors and plain values, saved by torch and loaded with ``weights_only=True``."""

    def read(self, path: Path) -> dict[str, Any]:
        import torch  # noqa: PLC0415

        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise DatasetError(f"{path} is not a checkpoint ({error}); train the model again") from error

    def write(self, data: dict[str, Any], path: Path) -> None:
        import torch  # noqa: PLC0415

        with atomic_path(path, checksum=True) as temporary, temporary.open("wb") as file:
            torch.save(data, file)
