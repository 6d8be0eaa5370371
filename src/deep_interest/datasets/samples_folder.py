"""Dataset of samples that an engine has written in partitions."""

import contextlib
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.datasets.stored_folder import StoredFolder
from deep_interest.io.atomic import atomic_path
from deep_interest.logs.samples import SPLITS


def remove_stored(folder: Path) -> None:
    """Remove the folder of a table whose files were moved, and the folder of the engine if it is the last one."""
    shutil.rmtree(folder)
    with contextlib.suppress(OSError):  # another result is still in it
        folder.parent.rmdir()


class SamplesFolder(StoredFolder[Path, pd.DataFrame]):
    """Samples as a folder of Parquet files, one or several for each partition of the users.

    A node returns the folder in which an engine has stored them; saving moves its files. Loading returns one table, sorted by user and
    time, so that it does not depend on the number of partitions.
    """

    def write(self, data: Path, path: Path) -> None:
        """Move the files ``partition=<n>/*.parquet`` to ``part-<n>-<k>.parquet`` and remove the folder."""
        with atomic_path(path, directory=True) as target:
            for folder in data.glob("partition=*"):
                number = int(folder.name.partition("=")[2])
                for k, file in enumerate(sorted(folder.glob("*.parquet"))):
                    shutil.move(file, target / f"part-{number:05}-{k:03}.parquet")
        remove_stored(data)

    def read(self, path: Path) -> pd.DataFrame:
        """Read all partitions into memory."""
        tables = [pq.read_table(file) for file in sorted(path.resolve().glob("part-*.parquet"))]
        frame = pa.concat_tables(tables).to_pandas()
        frame["split"] = pd.Categorical(frame["split"], categories=list(SPLITS))
        order = ["user", "time", "history_end", "label", "item"]
        return frame.sort_values(order, ascending=[True, True, True, False, True], ignore_index=True)
