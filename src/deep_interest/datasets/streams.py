"""Datasets that nodes write as a stream, block by block or day by day."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from kedro.io import DatasetError

from deep_interest.datasets.checked import Checked, missing_message
from deep_interest.datasets.file import FileDataset
from deep_interest.datasets.folder import LocalDataset
from deep_interest.datasets.parquet_stream import stream_parquet
from deep_interest.io.atomic import atomic_path
from deep_interest.serving.pairs import Scores


class ParquetFolder(LocalDataset[dict[str, Iterable[pd.DataFrame]], Path]):
    """Tables of one folder, each streamed to ``<name>.parquet``; loading returns the path of the folder."""

    def read(self, path: Path) -> Path:
        return path

    def write(self, data: dict[str, Iterable[pd.DataFrame]], path: Path) -> None:
        with atomic_path(path, directory=True) as folder:
            for name, blocks in data.items():
                stream_parquet(blocks, folder / f"{name}.parquet")


class DayFolders(LocalDataset[Iterable[tuple[str, dict[str, pd.DataFrame]]], Path]):
    """One folder of tables per day, each day written atomically; loading returns the path of the parent folder.

    Days are raw files, which users may edit, so they have no checksums; retraining does its own checks.
    """

    def load(self) -> Path:
        """Return the path of the folder.

        Raises:
            DatasetError: the folder does not exist.
        """
        if not self.exists():
            raise DatasetError(missing_message(str(self._filepath), self.pipeline))
        return Path(self._get_load_path())

    def write(self, data: Iterable[tuple[str, dict[str, pd.DataFrame]]], path: Path) -> None:
        for day, tables in data:
            with atomic_path(path / day, directory=True) as folder:
                for name, table in tables.items():
                    table.to_parquet(folder / f"{name}.parquet", index=False)


class _Scores(FileDataset):
    def load(self) -> Scores:
        raise DatasetError(
            f"{self._filepath}: scores are for other programs; read the file with pandas or DuckDB"
        )

    def save(self, data: Scores) -> None:
        with self._fs.open(str(self._get_save_path()), "wb") as file:
            metadata = {"model_version": data.version} | data.precision.model_dump()
            stream_parquet(data.blocks, file, name=str(self._filepath), metadata=metadata)


class ScoresFile(Checked, _Scores):
    """Scores of user-item pairs, streamed to one Parquet file with the model version and its precision in its metadata.

    The arguments are those of `FileDataset`.
    """
