"""Dataset of a table that nodes write as a data frame and read on DuckDB or Spark."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.datasets.samples_folder import remove_stored
from deep_interest.datasets.stored_folder import StoredFolder
from deep_interest.engines.connections import connection_config
from deep_interest.engines.engine_input import EngineInput
from deep_interest.io.atomic import atomic_path


class EngineTable(StoredFolder[pd.DataFrame | Path, EngineInput]):
    """A folder of Parquet files, loaded by ``ibis.FileDataset`` of kedro-datasets into a table of an ibis connection.

    A node returns a data frame, or a folder of Parquet files, which are moved. Saving is atomic and records checksums, which are compared
    before each load.

    Args:
        filepath: path, relative to the project.
        connection: ``backend`` (``duckdb`` or ``pyspark``) and its options, see `engines.connections`.
        rows_per_partition: approximate number of rows of a partition.
        metadata: metadata for Kedro-Viz and other plugins; ``pipeline`` is the pipeline that writes the file, for messages.
        cache, credentials, fs_args: as in `StoredFolder`.
    """

    def __init__(
        self,
        *,
        filepath: str,
        connection: dict[str, Any],
        rows_per_partition: int = 2_000_000,
        metadata: dict[str, Any] | None = None,
        cache: dict[str, str] | None = None,
        credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            filepath=filepath, cache=cache, credentials=credentials, fs_args=fs_args, metadata=metadata
        )
        self._connection, self._rows_per_partition = connection, rows_per_partition

    def read(self, path: Path) -> EngineInput:
        """Return the table on its engine.

        Raises:
            InputError: the extra ``spark`` or Java is not installed.
        """
        options = {name: value for name, value in self._connection.items() if name != "backend"}
        config = connection_config(str(self._connection.get("backend")), options)
        from kedro_datasets.ibis import FileDataset  # noqa: PLC0415  # needs the extra

        table = FileDataset(filepath=str(path.absolute() / "*.parquet"), connection=config).load()
        return EngineInput(table, path.absolute(), self._rows_per_partition)

    def write(self, data: pd.DataFrame | Path, path: Path) -> None:
        """Write the folder atomically, with checksums."""
        with atomic_path(path, directory=True) as folder:
            if isinstance(data, pd.DataFrame):
                data.to_parquet(folder / "part-00000.parquet", index=False)
                return
            for file in data.glob("*.parquet"):
                shutil.move(file, folder / file.name)
        remove_stored(data)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "connection": self._connection}
