"""Dataset of trained parameters."""

from typing import Any

from kedro.io import DatasetError

from deep_interest.datasets.checked import Checked
from deep_interest.datasets.file import FileDataset


class _Checkpoint(FileDataset):
    def load(self) -> dict[str, Any]:
        import torch  # noqa: PLC0415

        path = str(self._get_load_path())
        try:
            if self._protocol == "file":  # mapped into memory: a rank reads its own rows only
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            with self._fs.open(path, "rb") as file:
                return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            raise DatasetError(f"{path} is not a checkpoint ({error}); train the model again") from error

    def save(self, data: dict[str, Any]) -> None:
        import torch  # noqa: PLC0415

        with self._fs.open(str(self._get_save_path()), "wb") as file:
            torch.save(data, file)


class CheckpointFile(Checked, _Checkpoint):
    """Dictionary of tensors and plain values, saved by torch and loaded with ``weights_only=True``.

    The arguments are those of `FileDataset`.
    """
