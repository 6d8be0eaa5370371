"""Dataset of a Parquet file that nodes write as a data frame and read on DuckDB or Spark."""

from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.datasets.folder import LocalDataset
from deep_interest.engines.connections import connection_config
from deep_interest.engines.engine_input import EngineInput
from deep_interest.io.atomic import atomic_path


class EngineTable(LocalDataset[pd.DataFrame, EngineInput]):
    """A Parquet file, loaded by ``ibis.FileDataset`` of kedro-datasets into a table of an ibis connection.

    Saving is atomic and records a checksum, which is compared before each load.

    Args:
        filepath: path, relative to the project.
        connection: ``backend`` (``duckdb`` or ``pyspark``) and its options, see `engines.connections`.
        rows_per_partition: approximate number of rows of a partition.
        metadata: metadata for Kedro-Viz and other plugins; ``pipeline`` is the pipeline that writes the file, for messages.
    """

    def __init__(
        self,
        *,
        filepath: str,
        connection: dict[str, Any],
        rows_per_partition: int = 2_000_000,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(filepath=filepath, metadata=metadata)
        self._connection, self._rows_per_partition = connection, rows_per_partition

    def read(self, path: Path) -> EngineInput:
        """Return the table on its engine.

        Raises:
            InputError: the extra ``spark`` or Java is not installed.
        """
        options = {name: value for name, value in self._connection.items() if name != "backend"}
        config = connection_config(str(self._connection.get("backend")), options)
        from kedro_datasets.ibis import FileDataset  # noqa: PLC0415  # needs the extra

        table = FileDataset(filepath=str(path.absolute()), connection=config).load()
        return EngineInput(table, path.absolute(), self._rows_per_partition)

    def write(self, data: pd.DataFrame, path: Path) -> None:
        """Write the file atomically, with its checksum."""
        with atomic_path(path, checksum=True) as temporary:
            data.to_parquet(temporary, index=False)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "connection": self._connection}
