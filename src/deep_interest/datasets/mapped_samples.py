"""Dataset of samples that are mapped into memory."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from deep_interest.datasets.folder import LocalDataset
from deep_interest.datasets.samples_folder import remove_stored
from deep_interest.logs.sample_columns import load_samples, save_samples


class MappedSamples(LocalDataset[pd.DataFrame | Path, pd.DataFrame]):
    """Samples as a folder of arrays, one for each column, ordered by split; training maps them into memory.

    A node returns a table, or the folder in which an engine has stored partitions, which are read one after the other. Rows of a split
    keep the order of the table, or of the partitions.
    """

    def write(self, data: pd.DataFrame | Path, path: Path) -> None:
        """Write the columns; remove the folder of an engine."""
        if isinstance(data, pd.DataFrame):
            save_samples(lambda: iter([data]), path)
            return
        files = sorted(data.glob("partition=*/*.parquet"), key=lambda file: (_number(file), file.name))

        def partitions() -> Iterator[pd.DataFrame]:
            for file in files:
                yield pq.read_table(file, partitioning=None).to_pandas()

        save_samples(partitions, path)
        remove_stored(data)

    def read(self, path: Path) -> pd.DataFrame:
        """Map all columns into memory."""
        return load_samples(path)


def _number(file: Path) -> int:
    return int(file.parent.name.partition("=")[2])
