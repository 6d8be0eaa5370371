"""Datasets of tables: Parquet between nodes, CSV for results."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
from kedro.io import DatasetError
from kedro_datasets._typing import TablePreview

from deep_interest.datasets.local import LocalDataset
from deep_interest.datasets.parquet_stream import stream_parquet, write_parquet
from deep_interest.io.atomic import atomic_path
from deep_interest.serving.pairs import Scores


class ParquetTable(LocalDataset[pd.DataFrame, pd.DataFrame]):
    """Table in one Parquet file."""

    def read(self, path: Path) -> pd.DataFrame:
        table = pd.read_parquet(path)
        pa.default_memory_pool().release_unused()  # otherwise training keeps the memory that reading needed
        return table

    def write(self, data: pd.DataFrame, path: Path) -> None:
        with atomic_path(path, checksum=True) as temporary:
            data.to_parquet(temporary, index=False)

    def preview(self, nrows: int = 5) -> TablePreview:
        """Return the first rows for Kedro-Viz, or None before the first run."""
        if not self._exists():
            return None
        import pyarrow.parquet as pq  # noqa: PLC0415

        batches = pq.ParquetFile(self._filepath).iter_batches(batch_size=nrows)
        first = next(batches, None)
        return _preview(first.to_pandas() if first is not None else pd.DataFrame())


class ParquetFolder(LocalDataset[dict[str, Iterable[pd.DataFrame]], Path]):
    """Tables of one folder, each streamed to ``<name>.parquet``; loading returns the path of the folder."""

    def read(self, path: Path) -> Path:
        return path

    def write(self, data: dict[str, Iterable[pd.DataFrame]], path: Path) -> None:
        with atomic_path(path, directory=True) as folder:
            for name, blocks in data.items():
                stream_parquet(blocks, folder / f"{name}.parquet")


class ScoresFile(LocalDataset[Scores, Scores]):
    """Scores of user-item pairs, streamed to one Parquet file with the model version in its metadata."""

    def write(self, data: Scores, path: Path) -> None:
        write_parquet(data.blocks, path, metadata={"model_version": data.version})


class DayFolders(LocalDataset[Iterable[tuple[str, dict[str, pd.DataFrame]]], Path]):
    """One folder of tables per day, each day written atomically; loading returns the path of the parent folder.

    Days are raw files, which users may edit, so they have no checksums; retraining does its own checks.
    """

    def load(self) -> Path:
        """Return the path of the folder.

        Raises:
            DatasetError: the folder does not exist.
        """
        if not self._exists():
            raise DatasetError(
                f"{self._filepath} does not exist; run `kedro run --pipelines={self._pipeline}` first"
            )
        return self._filepath

    def write(self, data: Iterable[tuple[str, dict[str, pd.DataFrame]]], path: Path) -> None:
        for day, tables in data:
            with atomic_path(path / day, directory=True) as folder:
                for name, table in tables.items():
                    table.to_parquet(folder / f"{name}.parquet", index=False)


class CSVTable(LocalDataset[pd.DataFrame, pd.DataFrame]):
    """Small table as CSV; shown as a table in Kedro-Viz."""

    def read(self, path: Path) -> pd.DataFrame:
        return pd.read_csv(path)

    def write(self, data: pd.DataFrame, path: Path) -> None:
        with atomic_path(path, checksum=True) as temporary:
            data.to_csv(temporary, index=False)

    def preview(self, nrows: int = 40) -> TablePreview:
        """Return the first rows for Kedro-Viz, or None before the first run."""
        return _preview(pd.read_csv(self._filepath, nrows=nrows)) if self._exists() else None


def _preview(table: pd.DataFrame) -> TablePreview:
    plain = table.round(4).astype(object).where(table.notna(), None)
    return plain.to_dict(orient="split")
